// Command mutate is a mutation test of the simulation and of the property test of chains: it seeds
// one bug after the other into a copy of the tree, runs the test on it, and reports which bugs were
// caught. A bug in internal/chains is for the property test, all others are for the simulation.
// Each bug is a patch in test/sim/mutants with a description in its first line. Run it in the
// module root:
//
//	go run ./test/sim/mutate [-run REGEXP] [-checks N]
//
// The exit code is 1 if a bug was missed or a patch no longer applies.
package main

import (
	"bytes"
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
	for _, p := range []property{simulation, chains} {
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
	broken   verdict = "DOES NOT BUILD"
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

// property is a test that must fail on a seeded bug.
type property struct{ folder, test string }

//nolint:gochecknoglobals // Constants that the language has no form for.
var (
	simulation = property{"./test/sim", "TestEveryMoveIsLegal"}
	chains     = property{"./internal/chains", "TestRandomChainsAgreeWithTheirRules"}
)

// propertyOf returns the property for a patch.
func propertyOf(patch []byte) property {
	if bytes.Contains(patch, []byte("\n+++ b/internal/chains/")) {
		return chains
	}
	return simulation
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
	text, err := os.ReadFile(patch)
	if err != nil {
		return result{verdict: stale, why: err.Error()}
	}
	if out, err := m.command(ctx, "git", "apply", patch); err != nil {
		return result{verdict: stale, why: firstLine(out)}
	}
	r := m.run(ctx, propertyOf(text), checks)
	if out, err := m.command(ctx, "git", "apply", "--reverse", patch); err != nil {
		return result{verdict: stale, why: "cannot be taken out again: " + firstLine(out)}
	}
	return r
}

var failure = regexp.MustCompile(`(?:failed|panic) after (\d+) tests: (?:at [^:]+:\d+:[^:]+: )?(.*)`)

// run runs a test once. It disables shrinking, because the existence of a failure is enough.
func (m mutator) run(ctx context.Context, p property, checks int) result {
	began := time.Now()
	out, err := m.command(ctx, "go", "test", p.folder, "-run", "^"+p.test+"$", "-count=1", "-timeout=10m",
		"-rapid.nofailfile", "-rapid.shrinktime=1ns", "-rapid.checks="+strconv.Itoa(checks))
	r := result{
		verdict: survived,
		took:    time.Since(began),
		output:  out,
	}
	if err == nil {
		return r
	}
	if !strings.Contains(out, "--- FAIL: "+p.test) {
		r.verdict, r.why = broken, firstLine(out)
		return r
	}
	r.verdict = caught
	if found := failure.FindStringSubmatch(out); found != nil {
		r.cases, _ = strconv.Atoi(found[1]) // The expression matches only digits.
		r.why = strings.TrimSpace(found[2])
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
