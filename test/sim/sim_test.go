// Package sim is a simulation of the whole life of runs on a real Postgres with a simulated time.
// Workers that obey the holder's rules, a sweeper, users and a target act in a random order, with
// every fault that the guarantees cover. After every call, the changed rows are judged against a
// model of the legal moves.
package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The size of a simulation without flags of rapid: over 10,000 steps.
const (
	defaultChecks = "200"
	defaultSteps  = "100"
	// defaultSeed makes a simulation reproducible, so that it fails because of a code change and
	// not by chance. 0 draws a new seed, as `make sim` does.
	defaultSeed = "1"
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": defaultChecks, "rapid.steps": defaultSteps, "rapid.seed": defaultSeed} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestEveryMoveIsLegal is the simulation.
func TestEveryMoveIsLegal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	steps := 0
	rapid.Check(t, func(t *rapid.T) {
		w := b.newWorld(t)
		for range rapid.IntRange(1, 3).Draw(t, "endpoints") {
			w.do(w.registerCall(drawSpec(t)))
		}
		actions := w.actions()
		for name, action := range actions {
			if name != "" {
				actions[name] = func(t *rapid.T) { action(t); steps++ }
			}
		}
		t.Repeat(actions)
		w.quiet(t)
		w.decideAgain(t)
	})
	t.Logf("%d steps in %d cases reached:%s", steps, b.cases, table(b.reached))
	if steps < 10_000 || t.Failed() { // A short simulation cannot reach rare states.
		return
	}
	expected := often()
	if steps >= 100_000 {
		expected = append(expected, seldom()...)
	}
	for _, what := range expected {
		if b.reached[what] == 0 {
			t.Errorf("the simulation never reached: %s", what)
		}
	}
}

// often names the states that every full simulation must reach, because a simulation that stops
// reaching a state no longer tests it.
func often() []string {
	return []string{
		"start", "HOT start", "late start", "request", "start refused", "start expired", "start of another attempt",
		"start of an infrastructure attempt", "infrastructure attempt", "claim unknown",
		"claim of an expired lock", "claim above what is due", "release", "heartbeat", "take-over", "settlement refused", "finish unknown", "late answer", "repeated finish", "kept claim", "kept no more than its share",
		"lock over for its holder", "retry", "one-shot consumed", "plan by an interval hint", "plan by a one-shot hint", "plan by a header of the target",
		"change while a run is live", "change while an attempt waits", "run succeeded", "run failed", "run timed_out", "run lost", "run skipped", "jump", "echo", "race passed",
		"race waited", "quiet end", "twin", "twin of a start", "restart", "stale", "foreign", "misplaced", "worker retired",
		"overlap_skipped", "pause_skipped", "misfire_skipped", "due time dropped", "due time passed under a run",
		"due time queued", "queue behind a one-off run",
		"one-off run planned", "one-off run planned again", "one-off runs queue", "withdrawn",
	}
}

// seldom names the states that only a long simulation must reach, because 200 cases miss some of
// them occasionally.
func seldom() []string {
	return []string{
		"archived under its run", "start unknown", "budget of losses used up", "change while an infrastructure attempt waits", "change while the first occurrence waits",
		"catch up on the last occurrence", "withdrawn during its run",
	}
}

func table(counts map[string]int) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "\n%8d %s", counts[name], name)
	}
	return b.String()
}
