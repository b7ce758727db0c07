package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wrongClocks names the variable that tells a worker of the wrong-clock build how many seconds its wall clock is off. Several
// numbers, with commas between, are offsets that take turns: a clock that is set again and again.
const wrongClocks = "WRONG_CLOCK_SECONDS"

// turn is how long each of several offsets lasts.
const turn = 3 * time.Second

// wrongClock is what the standard library's time package gets in the wrong-clock build. The monotonic clock stays as it is, as on
// a machine whose wall clock is off.
const wrongClock = `package time

import "syscall"

var wrongSeconds = func() (list []int64) {
	text, _ := syscall.Getenv("` + wrongClocks + `")
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
}()

func wrongBy(mono int64) int64 {
	if len(wrongSeconds) == 0 {
		return 0
	}
	return wrongSeconds[mono/%d%%int64(len(wrongSeconds))]
}
`

// wrongBuild is the directory of a worker built with a standard library in which every reading of the wall clock, whoever asks, is
// off by what the environment says. There is no other way: a Go program asks the kernel's page for the time, where nobody can stand
// in between, and no namespace moves the wall clock.
var wrongBuild = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(binaries, "wrong-clock")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	overlay, err := writeOverlay(dir)
	if err != nil {
		return "", err
	}
	// The first build compiles everything again; it gives way to the scenarios that run meanwhile.
	build := exec.Command("nice", "-n", "19", "go", "build", "-buildvcs=false", "-tags", "failpoints", "-overlay", overlay,
		"-o", dir+"/", "./cmd/scheduler-worker")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building a worker with a wrong clock: %w\n%s", err, out)
	}
	return dir, nil
})

// writeOverlay writes a standard library's time package with a wrong clock and returns the file that tells the compiler.
func writeOverlay(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		return "", err
	}
	const reading = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reading) != 1 {
		return "", errors.New("this version of Go reads its clock in another way")
	}
	patched := strings.Replace(string(text), reading, reading+"\tsec += wrongBy(mono)\n", 1)
	replaced := map[string]string{}
	for name, content := range map[string]string{"time.go": patched, "wrong_clock.go": fmt.Sprintf(wrongClock, turn)} {
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

// Workers whose wall clocks are half a minute ahead, half a minute behind, and set back and forth all the time, run everything when
// it is due by the database's clock, once.
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
	s.register(load{n: 10, path: "7000", every: 2 * time.Second, limit: longRun, noSpread: true}) // Their locks live on heartbeats.
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
	require.LessOrEqual(t, r.Lateness.P99, int64(1000), "wrong clocks delayed starts")
}

// skew returns by how many seconds a worker says that its wall clock is ahead.
func (w *worker) skew(t *testing.T) float64 {
	t.Helper()
	return w.metric(t, "rubato_clock_skew_seconds")
}
