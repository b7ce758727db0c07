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
	// startPatience is how long a process may take until it is ready; on a loaded machine seconds, otherwise a tenth of one.
	startPatience = 30 * time.Second
	// stopPatience is how long one may take to drain before it is killed.
	stopPatience = 15 * time.Second
	// logTail is how many of its last log lines a process is asked for when it fails.
	logTail = 20
)

// process is a running part of a bench.
type process struct {
	name  string
	cmd   *exec.Cmd
	hold  io.Closer // its standard input: closing it ends the process
	news  news      // what it said first
	ended chan struct{}

	mu  sync.Mutex
	log []string // its last lines
}

// command says what process to start.
type command struct {
	name string   // for people
	path string   // of the program
	args []string // its arguments
	env  []string // beside PATH and HOME
	task any      // sent as one line of JSON
}

// startProcess starts a process and waits until it tells that it is ready. It runs until it is stopped, or until this process ends.
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
	heard := make(chan news, 1)
	go p.watch(out, log, heard)
	if err := json.NewEncoder(in).Encode(c.task); err != nil {
		return nil, errors.Join(fmt.Errorf("giving the %s its task: %w", c.name, err), p.await(ctx, heard), p.stop()) // What it said last tells why.
	}
	if err := p.await(ctx, heard); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// await waits for the first news.
func (p *process) await(ctx context.Context, heard <-chan news) error {
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

// watch reads what the process writes until it ends.
func (p *process) watch(out, log io.Reader, heard chan<- news) {
	defer close(p.ended)
	var readers sync.WaitGroup
	readers.Go(func() { p.keepLog(log) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var n news
		if json.Unmarshal(lines.Bytes(), &n) == nil {
			select {
			case heard <- n:
			default: // Only the first one is asked for.
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
	_, _ = io.Copy(io.Discard, log) // After a line that is too long.
}

func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// alive returns an error once the process has ended, which it must not do while it is measured.
func (p *process) alive() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the %s ended while it was measured:\n%s", p.name, p.tail())
	default:
		return nil
	}
}

// stop ends the process and waits until it is gone.
func (p *process) stop() error {
	_ = p.hold.Close() // Closed already where it was stopped before.
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopPatience):
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	return fmt.Errorf("the %s did not stop within %s and was killed", p.name, stopPatience)
}
