package house

import (
	"go/ast"
	"iter"
	"regexp"
	"strings"
	"testing"
)

var (
	// machinePath is a path that exists on somebody's machine only.
	machinePath = regexp.MustCompile(`(^|[\s"'(=:` + "`" + `])(/home/|/Users/|/work/|[A-Z]:\\Users\\)([A-Za-z0-9._-]+)`)
	// nobody are those whose homes may be named: Homebrew's, and the made-up people of tests.
	nobody = regexp.MustCompile(`^(linuxbrew|ada|someone)$`)
	// loosePromise is a note to do something later that nobody can look up.
	loosePromise = regexp.MustCompile(`(//|#|--|/\*).*\b(TODO|FIXME|XXX|HACK)\b`)
	keptPromise  = regexp.MustCompile(`\bTODO\(#[0-9]+\)`)
)

func TestTextsNameNoMachineAndPromiseNothingLoosely(t *testing.T) {
	t.Parallel()
	for path, text := range textFiles(t) {
		if strings.HasPrefix(path, "test/house/") || strings.HasSuffix(path, ".sum") {
			continue // This folder names what it looks for.
		}
		for n, line := range strings.Split(string(text), "\n") {
			if found := machinePath.FindStringSubmatch(line); found != nil && !nobody.MatchString(found[3]) {
				t.Errorf("%s:%d: the path %q is of one machine", path, n+1, found[2]+found[3])
			}
			if loosePromise.MatchString(line) && !keptPromise.MatchString(line) {
				t.Errorf("%s:%d: a note to do something later names its issue: TODO(#12)", path, n+1)
			}
		}
	}
}

// TestTestsDoNotSleep finds tests that wait for a time instead of for what should happen. Where a function runs a synctest bubble,
// sleeping is free and exact.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if !f.test() {
			continue
		}
		for _, decl := range f.ast.Decls {
			var sleeps []ast.Node
			bubble := false
			for call := range calls(decl) {
				bubble = bubble || called(call, "synctest", "Test")
				if called(call, "time", "Sleep") {
					sleeps = append(sleeps, call)
				}
			}
			for _, sleep := range sleeps {
				if !bubble {
					t.Errorf("%s: wait for a signal, or sleep in a synctest bubble", f.at(sleep))
				}
			}
		}
	}
}

// TestDomainReadsNoClockAndNoRandomSource keeps decisions replayable: time and chance come in as arguments.
func TestDomainReadsNoClockAndNoRandomSource(t *testing.T) {
	t.Parallel()
	pure := regexp.MustCompile(`^internal/(governor|schedule|endpoints|runs)/`)
	const idFile = "internal/endpoints/id.go" // An endpoint's ID is drawn once, when it is registered, and decides nothing.
	for _, f := range goFiles(t) {
		if f.test() || !pure.MatchString(f.path) || f.path == idFile {
			continue
		}
		for _, path := range f.ast.Imports {
			if strings.Contains(path.Path.Value, "/rand") {
				t.Errorf("%s imports %s", f.path, path.Path.Value)
			}
		}
		for call := range calls(f.ast) {
			for _, name := range []string{"Now", "Since", "Until", "After", "Tick", "NewTimer", "NewTicker", "Sleep"} {
				if called(call, "time", name) {
					t.Errorf("%s: time.%s in a package that must not know what time it is", f.at(call), name)
				}
			}
			for _, name := range []string{"New", "NewRandom", "NewV7"} {
				if called(call, "uuid", name) {
					t.Errorf("%s: uuid.%s draws at random", f.at(call), name)
				}
			}
		}
	}
}

// calls yields every call in a piece of source.
func calls(in ast.Node) iter.Seq[*ast.CallExpr] {
	return func(yield func(*ast.CallExpr) bool) {
		more := true
		ast.Inspect(in, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is && more {
				more = yield(call)
			}
			return more
		})
	}
}

// called reports whether a call is of a function of a package, by the name under which files import it.
func called(call *ast.CallExpr, pkg, name string) bool {
	sel, is := call.Fun.(*ast.SelectorExpr)
	if !is || sel.Sel.Name != name {
		return false
	}
	id, is := sel.X.(*ast.Ident)
	return is && id.Name == pkg
}
