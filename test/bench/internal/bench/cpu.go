package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tickLength is the unit of CPU time in /proc. USER_HZ is 100 on every Linux architecture that Go
// supports.
const tickLength = 10 * time.Millisecond

// errNoProc is the error on systems without /proc.
var errNoProc = errors.New("CPU time and memory of processes can be read on Linux only")

// procStat is a line of /proc/PID/stat.
type procStat struct {
	pid, parent int
	// own is the CPU time of the process.
	own time.Duration
	// dead is the CPU time of its exited children.
	dead time.Duration
}

func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	// The program name stands in parentheses, and may contain parentheses itself.
	after := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const state, parent, utime, stime, cutime, cstime = 0, 1, 11, 12, 13, 14
	if len(after) <= cstime {
		return procStat{}, fmt.Errorf("reading /proc/%d/stat: it has only %d fields", pid, len(after))
	}
	field := func(n int) int {
		value, _ := strconv.Atoi(string(after[n])) // The kernel writes numbers.
		return value
	}
	return procStat{
		pid: pid, parent: field(parent),
		own:  time.Duration(field(utime)+field(stime)) * tickLength,
		dead: time.Duration(field(cutime)+field(cstime)) * tickLength,
	}, nil
}

// cpuOf returns the CPU time of a process and its descendants, including exited ones.
func cpuOf(root int) (time.Duration, error) {
	stats, err := everyStat()
	if err != nil {
		return 0, err
	}
	children := map[int][]procStat{}
	for _, s := range stats {
		children[s.parent] = append(children[s.parent], s)
	}
	self, found := stats[root]
	if !found {
		return 0, fmt.Errorf("process %d is gone", root)
	}
	total := time.Duration(0)
	for queue := []procStat{self}; len(queue) > 0; queue = queue[1:] {
		total += queue[0].own + queue[0].dead
		queue = append(queue, children[queue[0].pid]...)
	}
	return total, nil
}

// everyStat returns all processes of the machine by PID.
func everyStat() (map[int]procStat, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(names) == 0 {
		return nil, errNoProc
	}
	stats := make(map[int]procStat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil { // An exited process is in the account of its parent.
			stats[pid] = s
		}
	}
	return stats, nil
}

// peakMemory returns the peak resident memory of a process in bytes.
func peakMemory(pid int) (int64, error) { return statusField(pid, "VmHWM:") }

// statusField returns a size from /proc/PID/status in bytes.
func statusField(pid int, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0, errNoProc
	}
	if err != nil {
		return 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("reading the memory of process %d: it has no %s", pid, name)
}

// usage is the CPU time of the parts of an installation.
type usage struct {
	worker, postgres, sink time.Duration
}

func (u usage) minus(before usage) usage {
	return usage{u.worker - before.worker, u.postgres - before.postgres, u.sink - before.sink}
}

// parts holds the processes of an installation.
type parts struct {
	workers  []*process // the workers, or the contender
	postgres int        // PID of the postmaster; 0: none
	sink     int
}

// usage reads the CPU time of every part.
func (p parts) usage() (u usage, err error) {
	for _, w := range p.workers {
		spent, err := cpuOf(w.pid())
		if err != nil {
			return u, err
		}
		u.worker += spent
	}
	if p.postgres != 0 {
		if u.postgres, err = cpuOf(p.postgres); err != nil {
			return u, err
		}
	}
	u.sink, err = cpuOf(p.sink)
	return u, err
}

// peak returns the peak memory of the largest worker, in MiB.
func (p parts) peak() (float64, error) {
	var most int64
	for _, w := range p.workers {
		bytes, err := peakMemory(w.pid())
		if err != nil {
			return 0, err
		}
		most = max(most, bytes)
	}
	return float64(most) / (1 << 20), nil
}
