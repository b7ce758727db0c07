package chaos

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

// process is a running program.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}

	mu    sync.Mutex
	lines []string // of its log
}

// start starts a program with env as its whole environment.
func start(t *testing.T, program string, env []string) *process {
	t.Helper()
	name := filepath.Base(program)
	p := &process{name: name, ended: make(chan struct{})}
	p.cmd = exec.Command(program)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	log, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		p.read(log)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.complain(t)
		if t.Failed() {
			t.Logf("%s (%d) wrote at last:\n%s", name, p.cmd.Process.Pid, p.tail(40))
		}
	})
	return p
}

// complain fails the test if the log holds a line that no program may ever write.
func (p *process) complain(t *testing.T) {
	t.Helper()
	for _, fault := range []string{"DATA RACE", "panicked", "goroutine 1 ["} {
		if text := p.tail(len(p.lines)); strings.Contains(text, fault) {
			t.Errorf("%s (%d) wrote of a %q:\n%s", p.name, p.cmd.Process.Pid, fault, text)
		}
	}
}

func (p *process) read(log io.Reader) {
	scanner := bufio.NewScanner(log)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		p.mu.Unlock()
	}
}

// tail returns the end of the log.
func (p *process) tail(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines[max(0, len(p.lines)-n):], "\n")
}

// logged waits for the first line of the log that holds a text, and returns it.
func (p *process) logged(t *testing.T, text string) string {
	t.Helper()
	var line string
	eventually(t, fmt.Sprintf("%s to log %q", p.name, text), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.lines {
			if strings.Contains(l, text) {
				line = l
				return true
			}
		}
		return false
	})
	return line
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s))
}

// killed waits until the process is gone and reports whether SIGKILL ended it.
func (p *process) killed(t *testing.T) bool {
	t.Helper()
	p.gone(t)
	status, known := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return known && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func (p *process) gone(t *testing.T) {
	t.Helper()
	waittest.Receive(t, p.ended, "%s did not end", p.name)
}

// over reports whether the process has ended.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stopped reports whether the process is stopped by a signal.
func (p *process) stopped(t *testing.T) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if errors.Is(err, os.ErrNotExist) { // No such file system here.
		stat, err = exec.Command("ps", "-o", "stat=", "-p", fmt.Sprint(p.cmd.Process.Pid)).Output()
		stat = append([]byte(") "), bytes.TrimSpace(stat)...)
	}
	require.NoError(t, err)
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(bytes.TrimSpace(after), []byte("T"))
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	waittest.Until(t, holds, "for %s", what)
}

// pass waits while a fault lasts or the programs run on.
func pass(d time.Duration) { <-time.After(d) }
