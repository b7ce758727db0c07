package house

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// logKeys are the keys of log attributes, with their meaning. A fact has the same key wherever it
// is logged, so that one search finds all entries.
func logKeys() map[string]string {
	return map[string]string{
		"after":                "how long a program waited before it gave something up",
		"application":          "what a session of Postgres calls itself",
		"attempts":             "how often something was tried",
		"author":               "who asked for a change, as the log of changes names them",
		"before":               "how many there were until now of what the line counts",
		"busy":                 "slots that are taken",
		"bytes":                "the size of an answer to a caller",
		"channel":              "the channel of Postgres on which a message came",
		"check":                "the name of a check of readiness",
		"claim_token":          "the number that fences a claim",
		"claims":               "how many claims the line is about",
		"claims_of_busy_hosts": "how many of them are of hosts that take no more",
		"client":               "where a session of Postgres comes from",
		"command":              "the first word of a query",
		"component":            "the package, or the part of one, that speaks",
		"dir":                  "a folder of this machine",
		"duration":             "how long something took",
		"endpoint_id":          "an endpoint",
		"error":                "what went wrong, an error or what was panicked with",
		"failures_before":      "failures of this kind since the last line about them",
		"grace":                "how long a worker that stops waits for requests under way",
		"key_id":               "the API key of a caller",
		"line":                 "a line of an import",
		"live":                 "runs that are under way",
		"method":               "the method of a caller's request",
		"loop":                 "the name of a loop",
		"notice":               "the ID of a notice",
		"open_for":             "how long a transaction has been open",
		"partitions":           "how many partitions of history the line is about",
		"path":                 "the path of a caller's request",
		"pid":                  "a server process of Postgres",
		"prepared":             "the identifier of a prepared transaction",
		"query_id":             "the identifier of a query in pg_stat_statements",
		"query_start":          "when a query began",
		"reason":               "why, as a value of an enum",
		"remote_address":       "where a caller's request came from",
		"request_id":           "a caller's request",
		"route":                "the pattern that the path of a caller's request has",
		"rows":                 "how many rows of the database the line is about",
		"rule":                 "the name of a rule of notices",
		"run_id":               "a run",
		"runs":                 "how many runs the line is about",
		"secrets":              "how many secrets the line is about",
		"session_state":        "the state of a session of Postgres",
		"sign":                 "the kind of a sign of life",
		"silent":               "runs under way whose worker is silent",
		"slots":                "how many requests may be under way at once",
		"slots_min":            "the fewest that slots may become",
		"stack":                "where a panic came from",
		"status":               "the status of an answer to a caller",
		"step":                 "the name of a step of the courier",
		"sweep":                "the name of a pass of the sweeper",
		"trace_id":             "the trace that a caller's request belongs to",
		"url":                  "where a program serves",
		"user":                 "a role of Postgres",
		"version":              "the version of the program",
		"worker_id":            "a worker",
		"workers":              "how many workers the line is about",
	}
}

// loggerName matches the names of loggers, so that log calls can be found.
var loggerName = regexp.MustCompile(`^([a-z]+L|[lL])ogger$`)

func TestLogKeysAreOfOneVocabulary(t *testing.T) {
	t.Parallel()
	meanings, used := logKeys(), map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test() {
			continue
		}
		for call := range calls(f.ast) {
			for _, arg := range logged(call) {
				key, literal := constant(arg)
				used[key] = true
				switch {
				case !literal:
					t.Errorf("%s: write the key of a log attribute as it is", f.at(arg))
				case meanings[key] == "":
					t.Errorf("%s: the log key %q has no meaning; use one of logKeys, or add what the fact is", f.at(arg), key)
				}
			}
		}
	}
	for key := range meanings {
		require.True(t, used[key], "nothing is logged under the key %q any more", key)
	}
}

// TestLoggersAreCalledSo checks the names of loggers, because log calls are found by them.
func TestLoggersAreCalledSo(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			field, is := n.(*ast.Field)
			if !is || f.test() {
				return true
			}
			star, is := field.Type.(*ast.StarExpr)
			if !is {
				return true
			}
			if sel, is := star.X.(*ast.SelectorExpr); is && sel.Sel.Name == "Logger" {
				for _, name := range field.Names {
					require.Regexp(t, loggerName, name.Name, f.at(name))
				}
			}
			return true
		})
	}
}

// logged returns the arguments of a log call that are keys of attributes.
func logged(call *ast.CallExpr) []ast.Expr {
	sel, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return nil
	}
	if attribute(call) {
		return call.Args[:1]
	}
	if name := nameOf(sel.X); name != "slog" && !loggerName.MatchString(name) {
		return nil
	}
	first, logs := map[string]int{
		"With": 0, "WithGroup": 0, "Debug": 1, "Info": 1, "Warn": 1, "Error": 1,
		"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2, "Log": 3,
	}[sel.Sel.Name]
	var keys []ast.Expr
	for n := first; logs && n < len(call.Args); n++ {
		if inner, is := call.Args[n].(*ast.CallExpr); is && attribute(inner) {
			continue // The walk visits it separately.
		}
		keys = append(keys, call.Args[n])
		n++
	}
	return keys
}

// attribute reports whether a call creates one attribute.
func attribute(call *ast.CallExpr) bool {
	for _, kind := range []string{"String", "Int", "Int64", "Uint64", "Float64", "Bool", "Time", "Duration", "Any", "Group", "GroupAttrs"} {
		if called(call, "slog", kind) {
			return true
		}
	}
	return false
}

// nameOf returns the last name of an expression: a variable, a field, a function, or the receiver
// of added attributes.
func nameOf(of ast.Expr) string {
	switch e := of.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		if sel, is := e.Fun.(*ast.SelectorExpr); is && (sel.Sel.Name == "With" || sel.Sel.Name == "WithGroup") {
			return nameOf(sel.X)
		}
		return nameOf(e.Fun)
	default:
		return ""
	}
}

// constant returns the text of a literal.
func constant(e ast.Expr) (text string, is bool) {
	lit, is := e.(*ast.BasicLit)
	if !is || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
