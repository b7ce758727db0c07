package success

import (
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"rubato/internal/pattern"
)

const (
	// codeCEL is the error code of an expression that cannot be used.
	codeCEL       = "cel_invalid"
	maxExpression = 4096 // bytes
	// costLimit bounds one evaluation in the cost units of the library: about one per step and a
	// tenth per byte. A pattern over a body of a megabyte fits. Nested loops over a large body do
	// not.
	costLimit = 1_000_000
)

// environment declares the variables of expressions. It is created on first use, because that takes
// milliseconds.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("status", cel.IntType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("body", cel.StringType),
		cel.Variable("json", cel.DynType),
		cel.Variable("latencyMs", cel.IntType),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(64),
	)
})

// celCheck is an expression that must evaluate to true.
type celCheck struct {
	text    string
	program cel.Program
	// uses holds the names of the variables in the expression.
	uses map[string]bool
}

func compileCEL(text string, budget *pattern.Budget) (check, []Problem) {
	env, err := environment()
	if err != nil {
		return nil, []Problem{celProblem(codeCEL, "cannot be read: "+err.Error())}
	}
	compiled, program, bad := compileBool(env, text, celForm{
		example:   "json.items.size() > 0",
		variables: "status, headers, body, json and latencyMs",
	}, budget)
	if bad != nil {
		return nil, bad
	}
	c := celCheck{
		text:    text,
		program: program,
		uses:    map[string]bool{},
	}
	for _, reference := range compiled.NativeRep().ReferenceMap() {
		c.uses[reference.Name] = true
	}
	return c, nil
}

// celForm describes the right form of an expression for error messages.
type celForm struct{ example, variables string }

func celProblem(code, message string) Problem {
	return Problem{
		Field:   "expression",
		Code:    code,
		Message: message,
	}
}

// compileBool compiles an expression that is true or false, within the cost limit.
func compileBool(env *cel.Env, text string, form celForm, budget *pattern.Budget) (*cel.Ast, cel.Program, []Problem) {
	refuse := func(code, message string) (*cel.Ast, cel.Program, []Problem) {
		return nil, nil, []Problem{celProblem(code, message)}
	}
	switch {
	case strings.TrimSpace(text) == "":
		return refuse("required", "must be an expression that is true or false, such as "+form.example)
	case len(text) > maxExpression:
		return refuse("too_long", fmt.Sprintf("must be at most %d bytes long", maxExpression))
	}
	compiled, issues := env.Compile(text)
	if issues.Err() != nil {
		return refuse(codeCEL, "must be an expression of CEL over "+form.variables+": "+issue(issues))
	}
	if kind := compiled.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return refuse(codeCEL, fmt.Sprintf("must be true or false, not of type %s", kind))
	}
	steps, message := compilePatterns(compiled.NativeRep().Expr(), budget)
	if message != "" {
		return refuse(codeCEL, message)
	}
	// Patterns are compiled once here, because a loop would compile them per element, and that
	// cost would not be charged.
	program, err := env.Program(compiled, cel.CostLimit(costLimit), cel.CostTracking(prices{steps}), cel.OptimizeRegex(interpreter.MatchesRegexOptimization))
	if err != nil {
		return refuse(codeCEL, "cannot be used: "+err.Error())
	}
	return compiled, program, nil
}

// compilePatterns compiles the patterns of an expression, charges them to the budget, and returns
// their steps or a fault. A pattern from the answer is refused, because its size is unbounded.
func compilePatterns(expression ast.Expr, budget *pattern.Budget) (steps map[string]uint64, message string) {
	steps = map[string]uint64{}
	ast.PostOrderVisit(expression, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches || len(e.AsCall().Args()) == 0 {
			return
		}
		args := e.AsCall().Args()
		given := args[len(args)-1]
		if given.Kind() != ast.LiteralKind {
			message = "must give matches its pattern as a text"
			return
		}
		text, _ := given.AsLiteral().Value().(string)
		compiled, err := budget.Compile(text)
		if err != nil {
			message = "has a pattern that cannot be used: it " + err.Error()
			return
		}
		steps[text] = uint64(compiled.Steps())
	}))
	return steps, message
}

// issue returns the compiler's first error on one line.
func issue(issues *cel.Issues) string {
	first := issues.Errors()[0]
	return fmt.Sprintf("%s (column %d)", cut(strings.Join(strings.Fields(first.Message), " "), maxFound), first.Location.Column()+1)
}

func (c celCheck) String() string { return fmt.Sprintf("cel %q", cut(c.text, maxFound)) }

func (c celCheck) looksAtBody() bool { return c.uses["body"] || c.uses["json"] }

func (c celCheck) holds(a *Answer) (bool, string) {
	if err := a.Budget.Spend(1); err != nil {
		return false, err.Error()
	}
	input, why := c.input(a)
	if why != "" {
		return false, why
	}
	result, details, err := c.program.Eval(input)
	if cost := details.ActualCost(); cost != nil { // The library bounds one expression; the budget bounds all of them.
		if fault := a.Budget.Spend(int(min(*cost, costLimit))); fault != nil {
			return false, fault.Error()
		}
	}
	switch {
	case err != nil:
		return false, "it cannot be evaluated: " + shorten(err.Error())
	case result == types.True:
		return true, ""
	case result == types.False:
		return false, "it is false"
	default:
		return false, "it is neither true nor false but of type " + result.Type().TypeName()
	}
}

// input returns the variables that the expression uses. Others are not computed, so that they cost
// nothing, and a body that is not JSON fails only expressions that use it.
func (c celCheck) input(a *Answer) (input map[string]any, why string) {
	input = map[string]any{"status": int64(a.Status), "latencyMs": a.Latency.Milliseconds()}
	if c.uses["headers"] {
		headers := make(map[string]string, len(a.Header))
		for name, values := range a.Header {
			headers[strings.ToLower(name)] = strings.Join(values, ", ")
		}
		input["headers"] = headers
	}
	if c.uses["body"] {
		if a.Truncated {
			return nil, "the body is longer than what is read of it (maxResponseKb)"
		}
		input["body"] = strings.ToValidUTF8(a.text(), "\uFFFD")
	}
	if c.uses["json"] {
		doc, err := a.document()
		if err != nil {
			return nil, "the body cannot be read as JSON: " + err.Error()
		}
		if a.plain == nil {
			a.plain = doc.Plain()
		}
		input["json"] = a.plain
	}
	return input, ""
}
