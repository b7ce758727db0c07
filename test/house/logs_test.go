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
		"after":                "time waited before an attempt was given up",
		"application":          "application_name of a Postgres session",
		"attempts":             "number of attempts",
		"author":               "author of a change, as in the audit log",
		"before":               "earlier value of the count in the line",
		"busy":                 "slots in use",
		"bytes":                "size of a response in bytes",
		"channel":              "notification channel of Postgres",
		"check":                "name of a readiness check",
		"claim_token":          "fencing token of a claim",
		"claims":               "number of claims",
		"claims_at_busy_hosts": "number of these claims whose host has no free request slot",
		"client":               "client address of a Postgres session",
		"command":              "first word of a query",
		"component":            "package, or part of one, that logs",
		"dir":                  "directory on this machine",
		"duration":             "duration of the operation",
		"chain_run":            "ID of a run of a chain",
		"endpoint_id":          "ID of an endpoint",
		"error":                "error text, or the value of a panic",
		"failures_before":      "failures of this kind since the last line about them",
		"grace":                "time that a graceful shutdown waits for requests in flight",
		"key_id":               "ID of the caller's API key",
		"line":                 "line number of an import",
		"live":                 "number of live runs",
		"method":               "method of an API request",
		"loop":                 "name of a loop",
		"notice":               "ID of a notice",
		"open_for":             "age of an open transaction",
		"partitions":           "number of history partitions",
		"path":                 "path of an API request",
		"pid":                  "process ID of a Postgres backend",
		"prepared":             "identifier of a prepared transaction",
		"query_id":             "query identifier in pg_stat_statements",
		"query_start":          "start time of a query",
		"reason":               "reason, as an enum value",
		"remote_address":       "remote address of an API request",
		"request_id":           "ID of an API request",
		"route":                "route pattern of an API request",
		"rows":                 "number of database rows",
		"rule":                 "name of a notice rule",
		"run_id":               "ID of a run",
		"runs":                 "number of runs",
		"secrets":              "number of secrets",
		"session_state":        "state of a Postgres session",
		"sign":                 "kind of heartbeat",
		"silent":               "number of live runs with a silent worker",
		"skipped":              "number of due times that were skipped",
		"slots":                "concurrency limit of a worker",
		"slots_min":            "lower bound of slots",
		"stack":                "stack trace of a panic",
		"status":               "status code of a response",
		"step":                 "name of a courier step",
		"sweep":                "name of a sweep",
		"tags":                 "required tags of endpoints, by set",
		"trace_id":             "trace ID of an API request",
		"url":                  "URL at which a program serves",
		"user":                 "Postgres role",
		"version":              "version of the program",
		"worker_id":            "ID of a worker",
		"workers":              "number of workers",
	}
}

// loggerName matches the names of loggers, so that log calls can be found.
var loggerName = regexp.MustCompile(`^([a-z]+L|[lL])ogger$`)

func TestLogKeysAreListed(t *testing.T) {
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

// TestLoggersAreNamedConsistently checks the names of loggers, because log calls are found by them.
func TestLoggersAreNamedConsistently(t *testing.T) {
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
