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

// superviseScript is a shell program that runs as the parent of every program that this package
// starts, and stops it when this process ends. Its arguments are a directory to remove when the
// program has ended, a directory to remove when this process has ended too, and the program. Either
// directory may be empty.
//
// File 3 is a pipe that only this process keeps open. File 4 is a pipe; its end of file reports
// that the program has ended. File 5 is the lock of the children.
//
// The watcher repeats the signal, because a shell starts background programs with SIGINT ignored: a
// signal is lost if it arrives before the program has set its handler. Postgres tolerates repeated
// signals. If this process itself stops the program, it writes two lines before it closes the pipe,
// one for the watcher and one for the shell. The shell waits for the watcher, so that no process is
// left when it reports the end of the program.
const superviseScript = `
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

// pollEvery is the poll interval of waits. It is short compared with the 100 ms of a server's
// start.
const pollEvery = 10 * time.Millisecond

// childParams describes a program to start and the directories to remove after its end.
type childParams struct {
	// Account is the user that the program runs as.
	Account account
	// Args are the program and its arguments.
	Args []string
	// Lock is the lock of the children. It is held until the program has ended.
	Lock *os.File
	// Output receives standard output and standard error.
	Output *os.File

	// RemoveAlways is removed when the program has ended. It may be empty.
	RemoveAlways string
	// RemoveOrphaned is removed when the program and this process have ended. It may be empty.
	RemoveOrphaned string
}

// child is a running program that is stopped when this process ends.
type child struct {
	cmd *exec.Cmd
	// hold is the pipe that keeps the program running: closing it stops the program.
	hold *os.File
	// gone reaches end of file when the program has ended.
	gone *os.File
}

// startChild starts a program. It needs no goroutine, so that tests can check for leaked ones.
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
	args := append([]string{"-c", superviseScript, "sh", p.RemoveAlways, p.RemoveOrphaned}, p.Args...)
	cmd := exec.Command("/bin/sh", args...) //nolint:noctx // It is stopped through the pipe instead of a kill.
	cmd.Dir = "/"
	cmd.Env = childEnv()
	cmd.Stdout, cmd.Stderr = p.Output, p.Output
	cmd.ExtraFiles = []*os.File{holdRead, goneWrite, p.Lock}
	cmd.SysProcAttr = p.Account.procAttr()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s as %s: %w", p.Args[0], p.Account.name, err), hold.Close(), gone.Close())
	}
	return &child{
		cmd:  cmd,
		hold: hold,
		gone: gone,
	}, nil
}

// childEnv returns a nearly empty environment, so that no PG variable or locale of the user affects
// the programs.
func childEnv() []string {
	env := []string{"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"}
	for _, name := range []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// runChild runs a program to its end. If ctx ends first, it stops the program and returns the
// context's error.
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

// exitsWithin waits at most d and reports whether the program has ended.
func (c *child) exitsWithin(d time.Duration) bool {
	if err := c.gone.SetReadDeadline(time.Now().Add(d)); err != nil {
		return true // already closed by reap
	}
	_, err := c.gone.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// wait blocks until the program has ended or ctx ends. In the latter case it returns the context's
// error.
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

// stop signals the program and waits for its end. If ctx ends first, it returns the context's
// error, and the program may still run.
func (c *child) stop(ctx context.Context) error {
	c.release()
	if err := c.wait(ctx); err != nil {
		return err
	}
	// The exit status is irrelevant: the program has ended.
	_ = c.reap()
	return nil
}

// end stops the program even if ctx has ended. After timeout it kills the program and its shells.
func (c *child) end(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if c.stop(ctx) != nil {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		_ = c.reap()
	}
}

// reap waits for the shell of an ended program and returns the program's exit status.
func (c *child) reap() error {
	c.release()
	err := c.cmd.Wait()
	_ = c.gone.Close()
	return err
}

// release stops the program, if it runs, and lets the shell end. It is idempotent.
func (c *child) release() {
	// The write fails if the shell was killed.
	_, _ = c.hold.WriteString(farewell)
	_ = c.hold.Close()
}
