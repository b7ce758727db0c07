package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	// startPatience is the start timeout of a process. On an idle machine a start takes a tenth of
	// a second, on a loaded one seconds.
	startPatience = 30 * time.Second
	// stopPatience is the drain timeout before a process is killed.
	stopPatience = 15 * time.Second
	// logTail is the number of log lines in the error of a failed process.
	logTail = 20
)

// process is a running process of a bench.
type process struct {
	name string
	cmd  *exec.Cmd
	// hold is its standard input. Closing it ends the process.
	hold io.Closer
	// news is its first line of output.
	news  processMessage
	ended chan struct{}

	mu sync.Mutex
	// log holds its last lines.
	log []string
}

// command describes a process to start.
type command struct {
	name string   // shown in errors
	path string   // of the program
	args []string // without the program
	env  []string // in addition to PATH and HOME
	task any      // sent as one line of JSON
}

// startProcess starts a process and waits until it reports that it is ready. The process runs until
// it is stopped or this process ends.
func startProcess(ctx context.Context, c command) (*process, error) {
	p := &process{name: c.name, ended: make(chan struct{})}
	p.cmd = exec.Command(c.path, c.args...) //nolint:gosec,noctx // It is this program or one that was just built; it ends with its standard input.
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, c.env...)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the %s: %w", c.name, err)
	}
	p.hold = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the %s: %w", c.name, err)
	}
	log, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the %s: %w", c.name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the %s: %w", c.name, err)
	}
	heard := make(chan processMessage, 1)
	go p.watch(out, log, heard)
	if err := json.NewEncoder(in).Encode(c.task); err != nil {
		return nil, errors.Join(fmt.Errorf("giving the %s its task: %w", c.name, err), p.await(ctx, heard), p.stop()) // Its last output explains the failure.
	}
	if err := p.await(ctx, heard); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// await waits for the first line of output.
func (p *process) await(ctx context.Context, heard <-chan processMessage) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	select {
	case p.news = <-heard:
		return nil
	case <-p.ended:
		return fmt.Errorf("the %s ended before it was ready:\n%s", p.name, p.tail())
	case <-ctx.Done():
		return fmt.Errorf("waiting for the %s to be ready: %w\n%s", p.name, ctx.Err(), p.tail())
	}
}

// watch reads the output of the process until it ends.
func (p *process) watch(out, log io.Reader, heard chan<- processMessage) {
	defer close(p.ended)
	var readers sync.WaitGroup
	readers.Go(func() { p.keepLog(log) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var n processMessage
		if json.Unmarshal(lines.Bytes(), &n) == nil {
			select {
			case heard <- n:
			default: // Only the first line is needed.
			}
		}
	}
	readers.Wait()
	_ = p.cmd.Wait()
}

func (p *process) keepLog(log io.Reader) {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		p.mu.Lock()
		p.log = append(p.log, lines.Text())
		p.log = p.log[max(0, len(p.log)-logTail):]
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, log) // Continue after a line that is too long.
}

func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// alive returns an error if the process has ended, because it must not end during a measurement.
func (p *process) alive() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the %s ended while it was measured:\n%s", p.name, p.tail())
	default:
		return nil
	}
}

// stop ends the process and waits for it.
func (p *process) stop() error {
	_ = p.hold.Close() // Closed already if it was stopped before.
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopPatience):
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	return fmt.Errorf("the %s did not stop within %s and was killed", p.name, stopPatience)
}
