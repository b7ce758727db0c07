package house

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The budgets. Long functions and files are hard to review. Code that needs more takes an exception
// with a reason.
const (
	maxFunction     = 80 // lines
	maxTestFunction = 120
	maxFile         = 600
	maxTestFile     = 600
	maxParams       = 4 // besides a context and a transaction
	maxMethods      = 5 // per interface

	medianFunction, p95Function = 12, 50
	medianFile, p95File         = 180, 400
)

// exceptions lists the code that may exceed a budget, by budget and name, with the reason.
func exceptions() map[string]string {
	return map[string]string{
		"function governor_test.TestWorkedCases": "one table, one row for each case that the rules promise",
		"function house.importRules":             "one table, one row for each package",
		"params claims.NewHeartbeater":           "six parts of six types, named alike by its one caller",
	}
}

func excused(budget, name string) bool { return exceptions()[budget+" "+name] != "" }

func TestFunctionsFitTheirBudgets(t *testing.T) {
	t.Parallel()
	var heights []int
	for _, f := range goFiles(t) {
		for _, decl := range f.ast.Decls {
			fn, is := decl.(*ast.FuncDecl)
			if !is {
				continue
			}
			height, limit := f.height(fn), maxTestFunction
			if !f.test() {
				heights, limit = append(heights, height), maxFunction
			}
			if height > limit && !excused("function", f.ast.Name.Name+"."+fn.Name.Name) {
				t.Errorf("%s: %s has %d lines; split it, at most %d fit a reader's head", f.at(fn), fn.Name.Name, height, limit)
			}
			if n := params(fn); n > maxParams && !f.test() && !excused("params", f.ast.Name.Name+"."+fn.Name.Name) {
				t.Errorf("%s: %s takes %d parameters; make more than %d a struct with names", f.at(fn), fn.Name.Name, n, maxParams)
			}
		}
	}
	require.LessOrEqual(t, quantile(heights, 50), medianFunction, "half of all functions are longer")
	require.LessOrEqual(t, quantile(heights, 95), p95Function, "one function in twenty is longer")
}

func TestFilesFitTheirBudgets(t *testing.T) {
	t.Parallel()
	var lines []int
	for _, f := range goFiles(t) {
		limit := maxTestFile
		if !f.test() {
			lines, limit = append(lines, f.lines), maxFile
		}
		if f.lines > limit && !excused("file", f.path) {
			t.Errorf("%s has %d lines; at most %d make one noun or one loop", f.path, f.lines, limit)
		}
	}
	require.LessOrEqual(t, quantile(lines, 50), medianFile, "half of all files are longer")
	require.LessOrEqual(t, quantile(lines, 95), p95File, "one file in twenty is longer")
}

func TestInterfacesAreSmall(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, spec := range types(f) {
			iface, is := spec.Type.(*ast.InterfaceType)
			if is && iface.Methods.NumFields() > maxMethods && !excused("methods", f.ast.Name.Name+"."+spec.Name.Name) {
				t.Errorf("%s: %s has %d methods; a consumer that needs more than %d does more than one thing",
					f.at(spec), spec.Name.Name, iface.Methods.NumFields(), maxMethods)
			}
		}
	}
}

func TestEverythingExportedIsDocumented(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		dir := filepath.Dir(f.path)
		documented[dir] = documented[dir] || f.ast.Doc.Text() != ""
		for _, decl := range f.ast.Decls {
			for name, doc := range exported(decl) {
				if !doc {
					t.Errorf("%s: %s has no comment", f.at(decl), name)
				}
			}
		}
	}
	for dir, done := range documented {
		if !done {
			t.Errorf("package %s has no comment that says what it knows", dir)
		}
	}
}

func TestExceptionsHaveReasons(t *testing.T) {
	t.Parallel()
	for name, reason := range exceptions() {
		require.NotEmpty(t, reason, "the exception for %q gives no reason", name)
	}
}

// params counts the parameters of a function, without a context and a transaction.
func params(fn *ast.FuncDecl) int {
	n := 0
	for _, field := range fn.Type.Params.List {
		if sel, is := field.Type.(*ast.SelectorExpr); is && slices.Contains([]string{"Context", "Tx", "DBTX"}, sel.Sel.Name) {
			continue
		}
		n += max(1, len(field.Names))
	}
	return n
}

// types returns the type declarations of a file.
func types(f goFile) []*ast.TypeSpec {
	var list []*ast.TypeSpec
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if spec, is := n.(*ast.TypeSpec); is {
			list = append(list, spec)
		}
		return true
	})
	return list
}

// exported returns the exported names of a declaration, and whether each is documented. The comment
// of a group documents all of its constants and variables.
func exported(decl ast.Decl) map[string]bool {
	names := map[string]bool{}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && receiverIsExported(d) {
			names[d.Name.Name] = d.Doc.Text() != ""
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names[s.Name.Name] = d.Doc.Text() != "" || s.Doc.Text() != ""
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names[name.Name] = d.Doc.Text() != "" || s.Doc.Text() != "" || s.Comment.Text() != ""
				}
			}
		}
	}
	for name := range names {
		if !ast.IsExported(name) {
			delete(names, name)
		}
	}
	return names
}

func receiverIsExported(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	receiver := fn.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.Ident:
			return r.IsExported()
		default:
			return true
		}
	}
}

// quantile returns a percentile of the numbers.
func quantile(numbers []int, percent int) int {
	if len(numbers) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}
