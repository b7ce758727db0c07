// Command mutate is a mutation test of the simulation and of the tests of chains, breakers, limits,
// tags, detached runs and drains: it seeds one bug after the other into a copy of the tree, runs
// the tests on it, and reports which bugs were caught. The name of a bug says for which tests it
// is; without a subject it is for the simulation. Each bug is a patch in test/sim/mutants with a
// description in its first line. Run it in the module root:
//
//	go run ./test/sim/mutate [-run REGEXP] [-checks N]
//
// The exit code is 1 if a bug was missed or a patch no longer applies.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	mutants = "test/sim/mutants"
	// cleanChecks is the number of cases that the unchanged tree must pass first.
	cleanChecks = 200
)

func main() {
	pattern := flag.String("run", "", "only the patches whose name matches")
	checks := flag.Int("checks", 2000, "how many cases the simulation has for each bug")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	missed, err := mutateAll(ctx, *pattern, *checks)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if err != nil || missed > 0 {
		stop()
		os.Exit(1) //nolint:gocritic // The deferred call was made above.
	}
}

// mutateAll tries every patch with a matching name and prints a row for each. It returns the number
// of bugs that were not caught.
func mutateAll(ctx context.Context, pattern string, checks int) (missed int, err error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return 0, fmt.Errorf("reading -run: %w", err)
	}
	patches, err := filepath.Glob(filepath.Join(mutants, "*.patch"))
	if err != nil {
		return 0, err
	}
	patches = slices.DeleteFunc(patches, func(path string) bool { return !match.MatchString(filepath.Base(path)) })
	dir, err := os.MkdirTemp("", "rubato-mutate-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := copyTree(".", dir); err != nil {
		return 0, fmt.Errorf("copying the tree: %w", err)
	}
	m := mutator{dir: dir}
	for p := range propertiesOf(patches) {
		if clean := m.run(ctx, p, min(checks, cleanChecks)); clean.verdict != survived {
			return 0, fmt.Errorf("%s fails without any bug:\n%s", p.test, clean.output)
		}
	}
	fmt.Println("| bug | verdict | cases | seconds | what caught it |\n| --- | --- | --- | --- | --- |")
	caughtCount := 0
	for _, path := range patches {
		r := m.try(ctx, path, checks)
		if ctx.Err() != nil {
			return missed, ctx.Err()
		}
		fmt.Println(r.row(path))
		if r.verdict == caught {
			caughtCount++
		} else {
			missed++
		}
	}
	fmt.Printf("\n%d of %d bugs caught, each within %d cases\n", caughtCount, len(patches), checks)
	return missed, nil
}

type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "MISSED"
	stale    verdict = "PATCH OUT OF DATE"
	broken   verdict = "NOT VALID" // Go or SQL of the patch.
)

// result is the result of one bug.
type result struct {
	verdict verdict
	cases   int    // number of cases until the test failed
	why     string // first line of the failure
	took    time.Duration
	output  string
}

func (r result) row(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".patch")
	return fmt.Sprintf("| %s | %s | %d | %.1f | %s |", name, r.verdict, r.cases, r.took.Seconds(), r.why)
}

// property is a set of tests of which one must fail on a seeded bug. test is a regular expression.
// random is set if the package has property tests, whose number of cases is a flag.
type property struct {
	folder, test string
	random       bool
}

// propertyOf returns the property for a patch, by the subject in its name.
func propertyOf(path string) property {
	_, name, _ := strings.Cut(filepath.Base(path), "-")
	switch subject, _, _ := strings.Cut(name, "-"); subject {
	case "chain":
		return property{"./internal/chains", "TestRandomChainsAgreeWithTheirRules", true}
	case "breaker", "limit":
		return property{"./internal/hosts", "Test.*", true}
	case "tags":
		return property{"./internal/store/items", "Test.*Tags.*|TestDueTimesWithoutAWorker.*", false}
	case "detach":
		return property{"./internal/store/items", "Test.*Detached.*|TestRunsOfOneEndpoint.*|TestAResultDuringARun.*", false}
	case "drain":
		return property{"./internal/dispatch", "TestDrainOrder.*", false}
	default:
		return property{"./test/sim", "TestEveryMoveIsLegal", true}
	}
}

// propertiesOf returns the properties for patches.
func propertiesOf(patches []string) map[property]bool {
	needed := map[property]bool{}
	for _, path := range patches {
		needed[propertyOf(path)] = true
	}
	return needed
}

// mutator works in a copy of the tree.
type mutator struct {
	dir string
}

// try applies one patch, runs its test, and reverts the patch.
func (m mutator) try(ctx context.Context, path string, checks int) result {
	patch, err := filepath.Abs(path)
	if err != nil {
		return result{verdict: stale, why: err.Error()}
	}
	if out, err := m.command(ctx, "git", "apply", patch); err != nil {
		return result{verdict: stale, why: firstLine(out)}
	}
	r := m.run(ctx, propertyOf(path), checks)
	if out, err := m.command(ctx, "git", "apply", "--reverse", patch); err != nil {
		return result{verdict: stale, why: "cannot be taken out again: " + firstLine(out)}
	}
	return r
}

var failure = regexp.MustCompile(`(?:failed|panic) after (\d+) tests: (?:at [^:]+:\d+:[^:]+: )?(.*)`)

// invalid matches the errors of statements that the database cannot prepare, such as one with
// another number of parameters. Every test fails then, whatever the bug is.
var invalid = regexp.MustCompile(`ERROR: .*\(SQLSTATE 42\w+\)`)

var failed = regexp.MustCompile(`--- FAIL: (\w+)`)

// run runs a test once. It disables shrinking, because the existence of a failure is enough.
func (m mutator) run(ctx context.Context, p property, checks int) result {
	began := time.Now()
	args := []string{"test", p.folder, "-run", "^(" + p.test + ")$", "-count=1", "-timeout=2m"}
	if p.random {
		args = append(args, "-timeout=10m", "-rapid.nofailfile", "-rapid.shrinktime=1ns", "-rapid.checks="+strconv.Itoa(checks))
	}
	out, err := m.command(ctx, "go", args...)
	r := result{
		verdict: survived,
		took:    time.Since(began),
		output:  out,
	}
	if err == nil {
		return r
	}
	fault := failed.FindStringSubmatch(out)
	if fault == nil {
		r.verdict, r.why = broken, firstLine(out)
		return r
	}
	r.verdict, r.why = caught, fault[1]
	if found := failure.FindStringSubmatch(out); found != nil {
		r.cases, _ = strconv.Atoi(found[1]) // The expression matches only digits.
		r.why = strings.TrimSpace(found[2])
	}
	if fault := invalid.FindString(out); fault != "" {
		r.verdict, r.why = broken, fault
	}
	return r
}

// command runs a program in the copy. Git must not discover a repository around the copy.
func (m mutator) command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = m.dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(m.dir), "GOFLAGS=-buildvcs=false")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// copyTree copies the files that the build needs: all except those in hidden or binary folders.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != from && (strings.HasPrefix(name, ".") || name == "bin") {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, path), 0o750)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), raw, 0o600)
	})
}
