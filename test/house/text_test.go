package house

import (
	"go/ast"
	"go/token"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var (
	// machinePath matches a path of a developer's machine.
	machinePath = regexp.MustCompile(`(^|[\s"'(=:` + "`" + `])(/home/|/Users/|/work/|[A-Z]:\\Users\\)([A-Za-z0-9._-]+)`)
	// nobody matches home directories that may be named: Homebrew's, and those of fictional users.
	nobody = regexp.MustCompile(`^(linuxbrew|ada|someone)$`)
	// loosePromise matches a note about later work without an issue number.
	loosePromise = regexp.MustCompile(`(//|#|--|/\*).*\b(TODO|FIXME|XXX|HACK)\b`)
	keptPromise  = regexp.MustCompile(`\bTODO\(#[0-9]+\)`)
)

func TestTextsContainNoMachinePathsAndNoLooseTODOs(t *testing.T) {
	t.Parallel()
	for path, text := range textFiles(t) {
		if strings.HasPrefix(path, "test/house/") || strings.HasSuffix(path, ".sum") {
			continue // This folder contains the patterns themselves.
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

// maxComment is the maximum width of a comment line in characters.
const maxComment = 100

// misspelled lists spellings that we do not use, with ours. They are also found across a line
// break.
func misspelled() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"canceled, canceling": regexp.MustCompile(`(?i)\bcancell(ed|ing)\b`),
		"cannot":              regexp.MustCompile(`(?i)\bcan\s+not\b`),
	}
}

// TestProseHasOneSpelling checks the spelling of comments in Go and SQL, and of documents.
// Decision records keep their text.
func TestProseHasOneSpelling(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, group := range f.ast.Comments {
			var prose []string
			for _, comment := range group.List {
				prose = append(prose, strings.TrimPrefix(comment.Text, "//"))
			}
			requireSpelled(t, f.path, f.fset.Position(group.Pos()).Line, strings.Join(prose, "\n"))
		}
	}
	for path, text := range textFiles(t) {
		switch {
		case strings.HasSuffix(path, ".sql"):
			var prose []string
			for line := range strings.SplitSeq(string(text), "\n") {
				_, comment, _ := strings.Cut(line, "--")
				prose = append(prose, comment)
			}
			requireSpelled(t, path, 1, strings.Join(prose, "\n"))
		case strings.HasPrefix(path, "docs/") && strings.HasSuffix(path, ".md") && !strings.HasPrefix(path, "docs/adr/"):
			requireSpelled(t, path, 1, string(text))
		}
	}
}

// requireSpelled checks the spelling of a text that begins at a line of a file.
func requireSpelled(t *testing.T, path string, line int, prose string) {
	t.Helper()
	for ours, other := range misspelled() {
		for _, at := range other.FindAllStringIndex(prose, -1) {
			t.Errorf("%s:%d: %q is spelled in another way here: %s", path, line+strings.Count(prose[:at[0]], "\n"), prose[at[0]:at[1]], ours)
		}
	}
}

func TestCommentLinesAreWrapped(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, group := range f.ast.Comments {
			for _, comment := range group.List {
				from, to := f.fset.Position(comment.Pos()).Line, f.fset.Position(comment.End()).Line
				for n := from; n <= to; n++ {
					line := f.text[n-1]
					if width := utf8.RuneCountInString(line); width > maxComment && prose(line) {
						t.Errorf("%s:%d: a line of %d characters; wrap a comment at %d", f.path, n, width, maxComment)
					}
				}
			}
		}
	}
}

// prose reports whether a line is a comment that can be wrapped: directives, preformatted lines and
// the output of an example cannot.
func prose(line string) bool {
	comment, is := strings.CutPrefix(strings.TrimSpace(line), "//")
	return is && !strings.HasPrefix(comment, "go:") && !strings.HasPrefix(comment, "\t") &&
		!strings.HasPrefix(comment, " Output: ")
}

// wait is a function of test code that may let time pass, and the reason why it has no signal to
// wait for.
type wait struct {
	file, function string
	reason         string
}

// waits lists the places where tests may let time pass.
func waits() []wait {
	return []wait{
		{"internal/devpg/crash_test.go", "TestOwnerKilledAtAnyMomentOfAStart", "the moments at which it kills are times, since nothing tells of them"},
		{"internal/dispatch/answers_test.go", "TestPhasesAddUpToTheTimeOfTheRun", "the target is slow, so that phases have a length to compare"},
		{"internal/egress/body_test.go", "TestPhasesAddUpOverTLS", "the target is slow, so that phases have a length to compare"},
		{"internal/egress/bounds_test.go", "TestPhasesAddUp", "the target is slow, so that phases have a length to compare"},
		{"internal/egress/egresstest/scripts.go", "Endless", "a target that drips does so at a pace"},
		{"internal/waittest/waittest.go", "Until", "a condition without an event is looked at again after a pause"},
		{"internal/egress/limits_test.go", "TestInterimAnswersAreNoAnswer", "the target is at work for longer than a header may take"},
		{"internal/egress/limits_test.go", "TestSlowButSteadyBodiesAreRead", "the target is slow, though never for longer than it may pause"},
		{"internal/httpapi/stream_test.go", "TestOnlyStreamsOutliveTheTimeouts", "an answer takes longer than the timeout that it outlives"},
		{"test/chaos/process_test.go", "pass", "faults last for a time, and load goes on for one"},
	}
}

// TestTestsDoNotSleep finds tests that wait for a duration instead of a condition. In a synctest
// bubble sleeping is allowed, because it is instantaneous and exact.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	found := map[wait]bool{}
	for _, f := range goFiles(t) {
		if !f.test() {
			continue
		}
		for _, decl := range f.ast.Decls {
			for _, pause := range pauses(decl) {
				if w := waitOf(f, decl); w.reason != "" {
					found[w] = true
				} else {
					t.Errorf("%s: wait for a signal or a condition, or in a synctest bubble", f.at(pause))
				}
			}
		}
	}
	for _, w := range waits() {
		require.NotEmpty(t, w.reason, "%s: %s waits without a reason", w.file, w.function)
		require.True(t, found[w], "%s: %s does not wait any more: take it out of the table", w.file, w.function)
	}
}

// TestWaitsHaveOneLimit finds testify's waits with a timeout of their own, because a busy machine
// exceeds any fixed one.
func TestWaitsHaveOneLimit(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, is := n.(*ast.SelectorExpr)
			if is && slices.Contains([]string{"Eventually", "Eventuallyf", "EventuallyWithT", "EventuallyWithTf", "Never", "Neverf"}, s.Sel.Name) {
				t.Errorf("%s: wait by waittest.Until, whose limit is the deadline of the test binary", f.at(s))
			}
			return true
		})
	}
}

// waitOf returns the entry of the table for a declaration in a file, or none.
func waitOf(f goFile, decl ast.Decl) wait {
	if fn, is := decl.(*ast.FuncDecl); is {
		for _, w := range waits() {
			if w.file == f.path && w.function == fn.Name.Name {
				return w
			}
		}
	}
	return wait{}
}

// pauses returns the places where a declaration only lets time pass: it sleeps, or receives from
// nothing but a timer. A declaration that runs a bubble has none.
func pauses(decl ast.Decl) []ast.Node {
	var list []ast.Node
	bubble, beside := false, map[ast.Node]bool{}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			for _, clause := range n.Body.List {
				if send, is := clause.(*ast.CommClause); is && len(n.Body.List) > 1 {
					beside[received(send.Comm)] = true
				}
			}
		case *ast.CallExpr:
			bubble = bubble || called(n, "synctest", "Test")
			if called(n, "time", "Sleep") {
				list = append(list, n)
			}
		case *ast.UnaryExpr:
			from, is := n.X.(*ast.CallExpr)
			if is && n.Op == token.ARROW && !beside[n] && (called(from, "time", "After") || called(from, "time", "Tick")) {
				list = append(list, n)
			}
		}
		return true
	})
	if bubble {
		return nil
	}
	return list
}

// received returns the expression that a select case receives from, or nil.
func received(comm ast.Stmt) ast.Node {
	switch s := comm.(type) {
	case *ast.ExprStmt:
		return s.X
	case *ast.AssignStmt:
		return s.Rhs[0]
	default:
		return nil
	}
}

// TestDomainReadsNoClockAndNoRandomSource checks that the domain gets time and randomness as
// arguments, so that decisions can be replayed.
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

// calls yields every call in a syntax tree.
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

// called reports whether a call is of a package's function, by the package's import name.
func called(call *ast.CallExpr, pkg, name string) bool {
	sel, is := call.Fun.(*ast.SelectorExpr)
	if !is || sel.Sel.Name != name {
		return false
	}
	id, is := sel.X.(*ast.Ident)
	return is && id.Name == pkg
}
