//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	armedBy    = "FAILPOINTS"
	reportedTo = "FAILPOINTS_REPORT"

	// exitCode distinguishes an exit by a failpoint from all others.
	exitCode = 86
	// filePoll is the poll interval of a paused process for its file.
	filePoll = 10 * time.Millisecond
	// settle is longer than a stop signal takes to reach every thread.
	settle = 20 * time.Millisecond
)

// arm is the action at one point.
type arm struct {
	action string // kill, stop, exit or pause
	// file ends a pause when it appears.
	file string
	// at is the number of the hit at which the action happens, counted from 1.
	at   int64
	hits atomic.Int64
}

// armed parses the environment once, at the first hit. The package has no other state.
var armed = sync.OnceValue(func() map[Point]*arm {
	arms, err := parse(os.Getenv(armedBy))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", armedBy, err)
		os.Exit(exitCode)
	}
	return arms
})

// Hit reports that the process has reached a point, and performs the action if the point is armed.
func Hit(p Point) {
	a := armed()[p]
	if a == nil {
		return
	}
	n := a.hits.Add(1)
	acts := n == a.at
	report(p, n, acts)
	if acts {
		a.act()
	}
}

// act performs the action.
func (a *arm) act() {
	switch a.action {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		// The signal takes a moment; this goroutine must not continue meanwhile.
		select {}
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		// The thread may run on for a moment after the signal was sent; it must not continue.
		time.Sleep(settle)
	case "exit":
		os.Exit(exitCode)
	case "pause":
		for {
			if _, err := os.Stat(a.file); err == nil {
				return
			}
			time.Sleep(filePoll)
		}
	}
}

// report appends a line "point hit acted|passed" in one write, so that lines of goroutines do not
// interleave and a kill leaves complete lines.
func report(p Point, n int64, acts bool) {
	path := os.Getenv(reportedTo)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", reportedTo, err)
		os.Exit(exitCode)
	}
	word := "passed"
	if acts {
		word = "acted"
	}
	_, _ = fmt.Fprintf(f, "%s %d %s\n", p, n, word)
	_ = f.Close()
}

// parse parses entries of the form point=action[:file][@hit].
func parse(spec string) (map[Point]*arm, error) {
	arms := map[Point]*arm{}
	for entry := range strings.SplitSeq(spec, ",") {
		if entry == "" {
			continue
		}
		name, rest, _ := strings.Cut(entry, "=")
		rest, hit, counted := strings.Cut(rest, "@")
		action, file, _ := strings.Cut(rest, ":")
		at := int64(1)
		if counted {
			n, err := strconv.ParseInt(hit, 10, 64)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("in %q, %q is not the number of a hit", entry, hit)
			}
			at = n
		}
		if !slices.Contains(append(Points(), Advised, Noticed, Sweeping, Advancing, Advanced), Point(name)) {
			return nil, fmt.Errorf("unknown point %q", name)
		}
		if !slices.Contains([]string{"kill", "stop", "exit", "pause"}, action) || (action == "pause") != (file != "") {
			return nil, fmt.Errorf("in %q, the action must be kill, stop, exit or pause:FILE", entry)
		}
		arms[Point(name)] = &arm{
			action: action,
			file:   file,
			at:     at,
		}
	}
	return arms, nil
}
