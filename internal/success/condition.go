package success

import (
	"errors"
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"rubato/internal/pattern"
)

// chainEnvironment declares the variables of the conditions of chains.
var chainEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	variables := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(
		cel.Variable("input", variables),
		cel.Variable("steps", variables),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(64),
	)
})

// Condition is an expression of CEL over the values of a chain. It is safe for concurrent use.
type Condition struct{ program cel.Program }

// CompileCondition compiles a condition of a chain. The problems state the right form.
func CompileCondition(text string) (*Condition, []Problem) {
	env, err := chainEnvironment()
	if err != nil {
		return nil, []Problem{celProblem(codeCEL, "cannot be read: "+err.Error())}
	}
	_, program, bad := compileBool(env, text, celForm{
		example:   `steps.reserve.output.total > 100`,
		variables: "input and steps",
	}, &pattern.Budget{})
	if bad != nil {
		return nil, bad
	}
	return &Condition{program}, nil
}

// Holds evaluates the condition with plain Go values, within the cost limit. The error says why it
// is neither true nor false.
func (c *Condition) Holds(values map[string]any) (bool, error) {
	result, _, err := c.program.Eval(values)
	switch {
	case err != nil:
		return false, errors.New("it cannot be evaluated: " + shorten(err.Error()))
	case result == types.True:
		return true, nil
	case result == types.False:
		return false, nil
	default:
		return false, fmt.Errorf("it is neither true nor false but of type %s", result.Type().TypeName())
	}
}
