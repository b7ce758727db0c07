// Package chaos injects faults while the real programs run: it kills and freezes workers, stops
// Postgres, cuts and stalls links, and lets targets misbehave. After each scenario the auditor
// compares the database with the target's own log. A finding fails the test, and so does a fault
// that did not fire.
//
// The short form runs with `go test`. RUBATO_CHAOS=long runs every fault longer and with more
// endpoints, RUBATO_CHAOS_RACE=1 builds the programs with the race detector, and RUBATO_CHAOS_CARD
// names a file for the guarantee card in Markdown; its JSON is written beside it. Scenarios mostly
// wait, so more of them run at once than the machine has cores, unless -parallel says otherwise.
package chaos

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"rubato/internal/waittest"
)

// binaries is the directory of the programs, which are built once.
var binaries string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rubato-chaos-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	args := []string{"build", "-buildvcs=false", "-tags", "failpoints", "-o", dir + "/"}
	if os.Getenv("RUBATO_CHAOS_RACE") != "" {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "./cmd/api", "./cmd/scheduler-worker", "./cmd/planner", "./cmd/rubato")...)
	build.Dir = "../.."
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		panic(fmt.Sprintf("building the programs: %v", err))
	}
	binaries = dir
	if !long() { // In the short form each scenario needs little of the machine.
		waittest.Together(together)
	}
	flag.Parse()
	if whole() { // The scenario of wrong clocks needs a second build and would wait for it later.
		go func() { _, _ = wrongBuild() }()
	}
	code := m.Run()
	if err := deck.write(os.Getenv("RUBATO_CHAOS_CARD")); err != nil {
		fmt.Fprintf(os.Stderr, "writing the guarantee card: %v\n", err)
		return 1
	}
	return code
}

// whole reports whether every scenario runs, according to the flags.
func whole() bool {
	run := flag.Lookup("test.run")
	return run == nil || run.Value.String() == ""
}

// together is the number of scenarios that run at once in the short form. Each takes a fifth of a
// processor, because it mostly waits.
const together = 6

// scale holds the sizes of a form of the suite.
type scale struct {
	endpoints int // of the usual load
	workers   int
	killing   time.Duration   // duration of the killing of workers
	outages   []time.Duration // of the database
	failover  time.Duration   // for which connections are refused
	fault     time.Duration   // for which a database refuses to work
	slow      int             // runs in flight during an outage
	settled   time.Duration   // undisturbed time before a fault
	pauses    int             // calls that pause or resume
	// delay bounds the lateness of due times of workers that leave in order. It is below the 6 s after
	// which the claims of a silent worker are taken over. In the short form the scenarios share the
	// processors, which delays starts as well.
	delay time.Duration
}

func long() bool { return os.Getenv("RUBATO_CHAOS") == "long" }

func size() scale {
	if long() {
		return scale{
			endpoints: 2000, workers: 4, killing: time.Minute, outages: []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute},
			failover: time.Minute, fault: 30 * time.Second, slow: 200, settled: 15 * time.Second, pauses: 10_000, delay: 2 * time.Second,
		}
	}
	return scale{
		endpoints: 60, workers: 4, killing: 12 * time.Second, outages: []time.Duration{5 * time.Second},
		failover: 3 * time.Second, fault: 5 * time.Second, slow: 200, settled: 3 * time.Second, pauses: 500, delay: 5 * time.Second,
	}
}
