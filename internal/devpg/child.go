package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// supervise is the parent of everything we start. Its arguments: a directory to remove when the program is gone, one to remove
// when we are gone too (either may be empty), the program. File 3 is the pipe that only our process keeps open, file 4 tells our
// process that the program is gone, file 5 is the children lock.
//
// The watcher repeats the signal, because a shell starts background programs with SIGINT ignored: one that comes before the
// program has set its handler is lost. Postgres takes repeated signals calmly. A process of ours that ends the program itself
// says farewell twice before it closes the pipe, once for the watcher and once for the shell. The watcher is waited for: whoever hears that the
// program is gone may look for what is left.
const supervise = `
always=$1 orphaned=$2
shift 2
"$@" 3<&- 4>&- 5>&- &
program=$!
{ read -r _; while kill -s INT "$program"; do sleep 0.2; done; } <&3 3<&- 4>&- 5>&- >/dev/null 2>&1 &
watcher=$!
wait "$program"
status=$?
kill -s KILL "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
[ -z "$always" ] || rm -rf -- "$always"
exec 4>&-
if [ -n "$orphaned" ]; then
	read -r farewell <&3
	[ -n "$farewell" ] || rm -rf -- "$orphaned"
fi
exit "$status"
`

const farewell = "stop\nstop\n"

// pollEvery is how often a wait looks at its context: short beside the 100 ms that a server needs to start.
const pollEvery = 10 * time.Millisecond

// childParams says what to run and what becomes of it.
type childParams struct {
	Account account
	Args    []string // program and arguments
	Lock    *os.File // children lock, held until the program is gone
	Output  *os.File // standard output and error

	RemoveAlways   string // directory removed when the program is gone; may be empty
	RemoveOrphaned string // directory removed when the program and we are gone; may be empty
}

// child is a running program that ends when our process does.
type child struct {
	cmd  *exec.Cmd
	hold *os.File // closing it stops the program
	gone *os.File // at its end when the program is gone
}

// startChild starts a program. It needs no goroutine, so a test that looks for leaked ones finds none.
func startChild(p childParams) (*child, error) {
	holdRead, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = holdRead.Close() }()
	gone, goneWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, hold.Close())
	}
	defer func() { _ = goneWrite.Close() }()
	args := append([]string{"-c", supervise, "sh", p.RemoveAlways, p.RemoveOrphaned}, p.Args...)
	cmd := exec.Command("/bin/sh", args...) //nolint:noctx // it is stopped through the pipe, gently, not by a kill
	cmd.Dir = "/"
	cmd.Env = childEnv()
	cmd.Stdout, cmd.Stderr = p.Output, p.Output
	cmd.ExtraFiles = []*os.File{holdRead, goneWrite, p.Lock}
	cmd.SysProcAttr = p.Account.procAttr()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s as %s: %w", p.Args[0], p.Account.name, err), hold.Close(), gone.Close())
	}
	return &child{cmd: cmd, hold: hold, gone: gone}, nil
}

// childEnv is nearly empty, so that no PG variable or locale of the user changes what the programs do.
func childEnv() []string {
	env := []string{"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"}
	for _, name := range []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// runChild runs a program to its end. When ctx ends first, the program is stopped.
func runChild(ctx context.Context, p childParams) error {
	c, err := startChild(p)
	if err != nil {
		return err
	}
	if err := c.wait(ctx); err != nil {
		c.end(ctx, stopTimeout)
		return err
	}
	return c.reap()
}

// exitsWithin reports whether the program is gone, waiting for d at most.
func (c *child) exitsWithin(d time.Duration) bool {
	if err := c.gone.SetReadDeadline(time.Now().Add(d)); err != nil {
		return true // closed, so it was reaped before
	}
	_, err := c.gone.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// wait blocks until the program is gone, and returns the context's error if that ends first or has ended.
func (c *child) wait(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.exitsWithin(pollEvery) {
			return nil
		}
	}
}

// stop asks the program to end and waits for it. When ctx ends first it returns the context's error, and the program may live.
func (c *child) stop(ctx context.Context) error {
	c.release()
	if err := c.wait(ctx); err != nil {
		return err
	}
	_ = c.reap() // the exit status does not say whether it stopped
	return nil
}

// end stops the program even though ctx may have ended, and kills it and its shells when patience runs out.
func (c *child) end(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if c.stop(ctx) != nil {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		_ = c.reap()
	}
}

// reap collects the shell of a program that is gone and returns the exit status of the program.
func (c *child) reap() error {
	c.release()
	err := c.cmd.Wait()
	_ = c.gone.Close()
	return err
}

// release stops the program, if it runs, and lets the shell end. More calls change nothing.
func (c *child) release() {
	_, _ = c.hold.WriteString(farewell) // nobody reads it when the shell was killed
	_ = c.hold.Close()
}
