package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/devpg"
	"rubato/internal/devpg/devpgtest"
)

// diskSize is the size of the small disk in bytes. An empty cluster with two segments of its log
// takes two thirds of it.
const diskSize = 96 << 20

// smallDisk returns an empty directory on a small disk of its own. It reports false where this
// process may not mount one.
func smallDisk(t *testing.T) (dir string, ok bool) {
	t.Helper()
	dir = devpgtest.Dir(t)
	var owner syscall.Stat_t
	require.NoError(t, syscall.Stat(dir, &owner))
	options := fmt.Sprintf("size=%d,mode=0755,uid=%d,gid=%d", diskSize, owner.Uid, owner.Gid)
	unmount, err := mountMemory(dir, options)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		t.Logf("no disk can be mounted here (%v): that Postgres answers 53100 to every write has to do", err)
		return "", false
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unmount()) })
	return dir, true
}

// On a full disk no recorded answer is lost: Postgres refuses to grow tables, and stops when it
// cannot write its log. Machines without the right to mount a disk test only the simulated form,
// "full disk, simulated".
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir, ok := smallDisk(t)
	if !ok {
		return
	}
	// Segments of the log are allocated as a whole, so that a table needs space before the log does.
	cluster, err := devpg.Start(t.Context(), devpg.Config{Dir: dir, Settings: map[string]string{
		"max_wal_size": "32MB", "min_wal_size": "32MB", "wal_recycle": "off", "wal_init_zero": "on",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop(context.WithoutCancel(t.Context()))) })
	refused(t, cluster, "full disk", refusal{
		fault: "the disk of Postgres is full to the last byte", state: "53100",
		begin: func(s *stack) func() { return s.fillDisk(dir) },
	})
}

// fillDisk fills the disk, waits until a worker's insert is refused, and writes to the log until
// Postgres stops for lack of space. The returned function frees the space and starts Postgres
// again.
func (s *stack) fillDisk(dir string) func() {
	s.t.Helper()
	ballast := filepath.Join(dir, "ballast")
	require.NoError(s.t, fill(ballast))
	s.awaitRefusal("53100")
	eventually(s.t, "Postgres to go down", func() bool {
		_, err := s.pool.Exec(s.t.Context(), "SELECT pg_logical_emit_message(false, 'stranger', repeat('x', 1000000))")
		return err != nil && !s.connects()
	})
	return func() {
		s.t.Helper()
		require.NoError(s.t, os.Remove(ballast))
		require.NoError(s.t, s.cluster.Restart(s.t.Context()))
		s.pool.Reset()
	}
}

// fill writes a file until there is no room for a byte more.
func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}
