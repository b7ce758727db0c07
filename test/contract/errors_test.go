package contract

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A row of docs/errors.md: a code in the first column.
var codeRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")

// TestEveryCodeIsDocumented collects every error code in the sources and compares them with
// docs/errors.md. Codes are literals, or constants with names that begin with code, so that they
// can be found.
func TestEveryCodeIsDocumented(t *testing.T) {
	t.Parallel()
	emitted := map[string]bool{}
	for _, dir := range []string{"app", "auth", "callbacks", "calls", "chains", "deadletters", "dispatch", "dispatch/request", "egress", "endpoints", "errs", "feed", "httpapi", "notices", "redact", "runs", "schedule", "secrets", "signing", "success"} {
		collect(t, filepath.Join("../../internal", dir), emitted)
	}
	stores, err := filepath.Glob("../../internal/store/*")
	require.NoError(t, err)
	for _, dir := range stores {
		if filepath.Base(dir) == "storetest" {
			continue
		}
		collect(t, dir, emitted)
	}
	// These codes of the planner reach users; its other codes are for advisors.
	emitted["suggestion_stale"], emitted["session_changed_nothing"] = true, true
	require.Greater(t, len(emitted), 40)
	page, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	documented := map[string]bool{}
	for _, row := range codeRow.FindAllStringSubmatch(string(page), -1) {
		require.False(t, documented[row[1]], "%s is documented twice", row[1])
		documented[row[1]] = true
	}
	require.Equal(t, slices.Sorted(maps.Keys(emitted)), slices.Sorted(maps.Keys(documented)))
}

// collect adds the codes that the sources of a package hold.
func collect(t *testing.T, dir string, into map[string]bool) {
	t.Helper()
	files := token.NewFileSet()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != dir {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			for _, code := range codesIn(n) {
				into[code] = true
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
}

// codesIn returns the codes that a node of a source writes.
func codesIn(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.CallExpr:
		return literals(argumentsOf(n)...)
	case *ast.CompositeLit:
		return literals(membersOf(n)...)
	case *ast.ValueSpec: // const codeType = "invalid_type", and the classes of errs.
		name := n.Names[0].Name
		class, is := n.Type.(*ast.Ident)
		if strings.HasPrefix(strings.ToLower(name), "code") && len(name) > len("code") || is && class.Name == "Code" {
			return literals(n.Values...)
		}
	case *ast.ReturnStmt: // wrongValue and its like return a code and a message.
		if len(n.Results) == 2 {
			return literals(n.Results[0])
		}
	}
	return nil
}

// argumentsOf returns the arguments of a call that are codes.
func argumentsOf(call *ast.CallExpr) []ast.Expr {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
	case *ast.Ident:
		name = f.Name
	}
	at, known := map[string]int{"New": 1, "badParameter": 1, "newProblem": 1, "complain": 1}[name]
	if !known || len(call.Args) <= at {
		return nil
	}
	if name == "complain" && len(call.Args) == 2 {
		at = 0
	}
	return call.Args[at : at+1]
}

// membersOf returns the members of a literal that are codes.
func membersOf(lit *ast.CompositeLit) []ast.Expr {
	var list []ast.Expr
	for _, element := range lit.Elts {
		pair, is := element.(*ast.KeyValueExpr)
		if !is {
			continue
		}
		name, is := pair.Key.(*ast.Ident)
		if is && slices.Contains([]string{"Code", "code", "Reason"}, name.Name) {
			list = append(list, pair.Value)
		}
	}
	return list
}

var codeForm = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// literals returns the values of the expressions that are texts in the form of a code.
func literals(list ...ast.Expr) []string {
	var texts []string
	for _, e := range list {
		lit, is := e.(*ast.BasicLit)
		if !is || lit.Kind != token.STRING {
			continue
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && codeForm.MatchString(text) {
			texts = append(texts, text)
		}
	}
	return texts
}
