package devpg

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLockOfALiveHolderIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(newDir(t), lockName)
	f, err := lockOwner(t.Context(), path)
	require.NoError(t, err)
	_, err = lockOwner(t.Context(), path)
	require.ErrorIs(t, err, ErrInUse)
	require.Equal(t, os.Getpid(), holderOf(path))
	require.NoError(t, f.Close())
	f, err = lockOwner(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestLockOfADeadHolderIsWaitedFor stands for a child of a killed owner that has not run its
// program yet.
func TestLockOfADeadHolderIsWaitedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(newDir(t), lockName)
	for _, text := range []string{"", "999999999\n"} { // a holder that has not written its number, and one that is no process
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		held, err := os.Open(path)
		require.NoError(t, err)
		require.NoError(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
		taken := make(chan error, 1)
		go func() {
			f, err := lockOwner(t.Context(), path)
			if err == nil {
				err = f.Close()
			}
			taken <- err
		}()
		select {
		case err := <-taken:
			t.Fatal("the lock was not waited for:", err)
		case <-time.After(5 * pollEvery):
		}
		require.NoError(t, held.Close())
		require.NoError(t, <-taken)
		require.Equal(t, os.Getpid(), holderOf(path))
	}
}

func TestWaitForChildrenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(newDir(t), childrenName)
	held, err := lockChildren(t.Context(), path)
	require.NoError(t, err)
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*pollEvery)
	defer cancel()
	_, err = lockChildren(ctx, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "of a dead process in "+filepath.Dir(path))
}

func TestOpenHomeReleasesItsLocksOnFailure(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	acct, err := serverAccount()
	require.NoError(t, err)
	children, err := lockChildren(t.Context(), filepath.Join(dir, childrenName))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*pollEvery)
	defer cancel()
	_, err = openHome(ctx, dir, acct)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, children.Close())
	h, err := openHome(t.Context(), dir, acct)
	require.NoError(t, err)
	h.close()
}

func TestOpenHomeNeedsADirectory(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	file := filepath.Join(newDir(t), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "sub")} {
		_, err := openHome(t.Context(), dir, acct)
		require.ErrorContains(t, err, "not a directory")
	}
}

func TestLogTailIsShort(t *testing.T) {
	t.Parallel()
	h := &home{dir: newDir(t)}
	require.Contains(t, h.logTail(), "no such file")
	text := ""
	for n := range 100 {
		text += "line " + strconv.Itoa(n) + "\n"
	}
	require.NoError(t, os.WriteFile(h.logFile(), []byte(text), 0o600))
	require.Regexp(t, `^line 88\n(line \d+\n){10}line 99$`, h.logTail())
}
