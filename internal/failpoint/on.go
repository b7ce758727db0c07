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

	// exitCode tells an exit by a failpoint from every other.
	exitCode = 86
	// look is how often a paused process looks for its file.
	look = 10 * time.Millisecond
	// settle is more than a stop takes to reach every thread.
	settle = 20 * time.Millisecond
)

// arm is what the environment asks for at one point.
type arm struct {
	action string // kill, stop, exit or pause
	file   string // whose appearance ends a pause
	at     int64  // the hit at which it acts
	hits   atomic.Int64
}

// armed returns what the environment arms. It is read once, by the first hit: the package has no other state.
var armed = sync.OnceValue(func() map[Point]*arm {
	arms, err := parse(os.Getenv(armedBy))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", armedBy, err)
		os.Exit(exitCode)
	}
	return arms
})

// Hit tells that the process has come to a point. It returns unless the environment wants otherwise.
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

// act does what the point is armed for.
func (a *arm) act() {
	switch a.action {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // The signal takes a moment; nothing may happen in it.
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(settle) // This thread may run on for a moment after the signal was sent; it must not get anywhere.
	case "exit":
		os.Exit(exitCode)
	case "pause":
		for {
			if _, err := os.Stat(a.file); err == nil {
				return
			}
			time.Sleep(look)
		}
	}
}

// report adds a line "point hit acted|passed" in one write, so that lines of goroutines do not mix and a kill leaves whole ones.
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

// parse reads entries of the form point=action[:file][@hit].
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
		if !slices.Contains(append(Points(), Advised, Noticed, Sweeping), Point(name)) {
			return nil, fmt.Errorf("there is no point %q", name)
		}
		if !slices.Contains([]string{"kill", "stop", "exit", "pause"}, action) || (action == "pause") != (file != "") {
			return nil, fmt.Errorf("in %q, the action must be kill, stop, exit or pause:FILE", entry)
		}
		arms[Point(name)] = &arm{action: action, file: file, at: at}
	}
	return arms, nil
}
