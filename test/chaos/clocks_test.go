package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wrongClocks names the variable that sets the wall clock of the wrong-clock build off, in seconds.
// Several offsets with commas between take turns, because some clocks are set again and again.
const wrongClocks = "WRONG_CLOCK_SECONDS"

// driftingClocks names the variable that sets the drift of a worker's clocks, in thousandths;
// negative is slow. Wall clock, monotonic clock and timers drift together, as the clocks of a
// machine do while its kernel slews them.
const driftingClocks = "DRIFTING_CLOCK_PER_MILLE"

// turn is how long each of several offsets lasts.
const turn = 3 * time.Second

// wrongClock replaces the clock of the standard library's time package in the wrong-clock build.
// Offsets leave the monotonic clock as it is, as on a machine with a wrong wall clock.
const wrongClock = `package time

import "syscall"

var wrongSeconds, driftRate = wrongNumbers("` + wrongClocks + `"), append(wrongNumbers("` + driftingClocks + `"), 0)[0]

func wrongNumbers(name string) (list []int64) {
	text, _ := syscall.Getenv(name)
	sign, n, digits := int64(1), int64(0), false
	for _, c := range text + "," {
		switch {
		case c == '-':
			sign = -1
		case c >= '0' && c <= '9':
			n, digits = 10*n+int64(c-'0'), true
		case c == ',' && digits:
			list = append(list, sign*n)
			sign, n, digits = 1, 0, false
		}
	}
	return list
}

// drift returns how far a drifting clock is ahead after it has run for nano.
func drift(nano int64) int64 { return nano / 1000 * driftRate }

// drifted returns a reading of the monotonic clock with the drift applied.
func drifted(nano int64) int64 { return nano + drift(nano) }

// driftedWall returns a reading of the wall clock with the drift applied.
func driftedWall(sec int64, nsec int32, nano int64) (int64, int32) {
	n := int64(nsec) + drift(nano)
	whole := n / 1e9
	if n%%1e9 < 0 {
		whole--
	}
	return sec + whole, int32(n - whole*1e9)
}

func wrongBy(mono int64) int64 {
	if len(wrongSeconds) == 0 {
		return 0
	}
	return wrongSeconds[mono/%d%%int64(len(wrongSeconds))]
}
`

// wrongBuild is the directory of a worker with a standard library that reads a wrong wall clock,
// off by the environment's offset. It needs a build of its own because a Go program reads the time
// from the kernel's vDSO page, where nothing can intercept it, and no namespace moves the wall
// clock.
var wrongBuild = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(binaries, "wrong-clock")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	overlay, err := writeOverlay(dir)
	if err != nil {
		return "", err
	}
	// The first build compiles everything again, without optimization, which takes a third less. It
	// runs at low priority, because scenarios run meanwhile.
	build := exec.Command("nice", "-n", "19", "go", "build", "-buildvcs=false", "-tags", "failpoints", "-overlay", overlay, "-gcflags=all=-N -l",
		"-o", dir+"/", "./cmd/scheduler-worker")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building a worker with a wrong clock: %w\n%s", err, out)
	}
	return dir, nil
})

// writeOverlay writes a time package with a wrong clock and returns the overlay file for the
// compiler.
func writeOverlay(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	const reading = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	wrong := reading + "\tsec += wrongBy(mono)\n\tsec, nsec = driftedWall(sec, nsec, mono-startNano)\n\tmono = startNano + drifted(mono-startNano)\n"
	clock, err := patched(filepath.Join(std, "time.go"),
		reading, wrong,
		"return subMono(runtimeNano()-startNano, t.ext)", "return subMono(drifted(runtimeNano()-startNano), t.ext)",
		"return subMono(t.ext, runtimeNano()-startNano)", "return subMono(t.ext, drifted(runtimeNano()-startNano))",
	)
	if err != nil {
		return "", err
	}
	timers, err := patched(filepath.Join(std, "sleep.go"), "t := runtimeNano() + int64(d)\n", "t := runtimeNano() + int64(d) - drift(int64(d))\n")
	if err != nil {
		return "", err
	}
	replaced := map[string]string{}
	for name, content := range map[string]string{"time.go": clock, "sleep.go": timers, "wrong_clock.go": fmt.Sprintf(wrongClock, turn)} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return "", err
		}
		replaced[filepath.Join(std, name)] = file
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// patched returns a file of the standard library with texts replaced. Each text must occur once.
func patched(file string, texts ...string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := string(content)
	for pair := range slices.Chunk(texts, 2) {
		if strings.Count(text, pair[0]) != 1 {
			return "", errors.New("this version of Go reads its clock in another way")
		}
		text = strings.Replace(text, pair[0], pair[1], 1)
	}
	return text, nil
}

// Workers with drifting clocks, one fast and one slow by two percent, run every due time once and
// on time. The audit of their history applies no tolerance: it finds neither an overlap nor a lost
// due time.
func TestDriftingWorkerClocks(t *testing.T) {
	t.Parallel()
	dir, err := wrongBuild()
	require.NoError(t, err)
	s := newStack(t, nil)
	s.programs = dir
	for _, rate := range []string{"20", "-20"} {
		s.startWorker(map[string]string{driftingClocks: rate})
	}
	s.awaitReady(true)
	s.register(load{n: 30, path: "900", every: time.Second, limit: 2 * time.Second}) // Ends shortly before the next one starts.
	s.register(load{n: 30, path: "1100", every: time.Second, limit: 3 * time.Second})
	s.register(load{n: 10, path: "20", every: 2 * time.Second, limit: longRun, noSpread: true})
	began := time.Now()
	var fast, slow float64
	for time.Since(began) < 2*size().settled+2*longRun/3 {
		fast, slow = max(fast, s.workers[0].skew(t)), min(slow, s.workers[1].skew(t))
		pass(turn / 6)
	}
	require.Greater(t, fast, 0.1, "the first clock did not run fast")
	require.Less(t, slow, -0.1, "the second clock did not run slow")

	r := s.conclude(verdict{
		name: "worker clocks that drift by 2 %", fault: "one worker's clocks run fast, one's slow", fired: "seen in each worker's skew metric",
		ended: time.Now(),
	})
	require.Zero(t, r.Counts.Overlaps)
	require.Zero(t, r.Counts.Statuses["lost"])
}

// Workers with wall clocks that are half a minute ahead, half a minute behind, or set back and
// forth run every due time once, when it is due by the database's clock.
func TestWrongWorkerClocks(t *testing.T) {
	t.Parallel()
	dir, err := wrongBuild()
	require.NoError(t, err)
	s := newStack(t, nil)
	s.programs = dir
	offsets := []string{"30", "-30", "-30,30"}
	for _, seconds := range offsets {
		s.startWorker(map[string]string{wrongClocks: seconds})
	}
	s.awaitReady(true)
	s.register(load{n: 50, path: "20", every: time.Second, limit: 2 * time.Second})
	// Heartbeats extend their locks.
	s.register(load{n: 10, path: "7000", every: 2 * time.Second, limit: longRun, noSpread: true})
	began := time.Now()
	var low, high float64
	for time.Since(began) < size().settled+2*longRun/3 {
		ahead, behind := s.workers[0].skew(t), s.workers[1].skew(t)
		require.InDelta(t, 30, ahead, 1, "the fault did not fire")
		require.InDelta(t, -30, behind, 1, "the fault did not fire")
		jumping := s.workers[2].skew(t)
		low, high = min(low, jumping), max(high, jumping)
		pass(turn / 6)
	}
	require.InDelta(t, -30, low, 1, "the third clock was never behind")
	require.InDelta(t, 30, high, 1, "the third clock was never ahead")
	for _, w := range s.workers {
		require.Positive(t, s.count("SELECT count(*) FROM runs WHERE worker_id = $1 AND status = 'succeeded'", w.id), "a worker had no part in it")
	}

	r := s.conclude(verdict{
		name: "worker clocks off by 30 s", fault: "one wall clock ahead, one behind, one set back and forth", fired: "seen in each worker's skew metric",
		ended: time.Now(),
	})
	require.Zero(t, r.Counts.Overlaps)
	require.Zero(t, r.Counts.Statuses["lost"])
	s.requireWithin(time.Second, r.Lateness.P99, always, "wrong clocks delayed starts")
}

// skew returns the skew of its wall clock that a worker reports, in seconds; positive is ahead.
func (w *worker) skew(t *testing.T) float64 {
	t.Helper()
	return w.metric(t, "rubato_clock_skew_seconds")
}
