package devpgtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/devpg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers is a template with a hundred numbers in it.
func numbers() Template {
	return Template{Key: "numbers", Migrate: func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "CREATE TABLE numbers AS SELECT n FROM generate_series(1, 100) n")
		return errors.Join(err, conn.Close(ctx))
	}}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func count(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM numbers").Scan(&n))
	return n
}

func TestEveryTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"One", "Two", "Three", "Four"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, NewDatabase(t, numbers()))
			require.Equal(t, 100, count(t, conn))
			_, err := conn.Exec(t.Context(), "DELETE FROM numbers WHERE n > 50")
			require.NoError(t, err)
			require.Equal(t, 50, count(t, conn))
		})
	}
}

func TestDatabaseIsDroppedWithItsTestDespiteSessions(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("Inner", func(t *testing.T) {
		url = NewDatabase(t, numbers())
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		require.Equal(t, 100, count(t, conn))
		defer func() { _ = conn.PgConn().Conn().Close() }() // the session is left to the server
	})
	_, err := pgx.Connect(t.Context(), url)
	require.ErrorContains(t, err, "3D000")
}

func TestTemplateWithoutMigrationIsEmpty(t *testing.T) {
	t.Parallel()
	conn := connect(t, NewDatabase(t, Template{Key: "empty"}))
	var tables int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables))
	require.Zero(t, tables)
}

func TestClusterIsPrivateAndSurvivesAKill(t *testing.T) {
	t.Parallel()
	c := Cluster(t)
	conn := connect(t, c.URL())
	_, err := conn.Exec(t.Context(), "CREATE TABLE numbers AS SELECT 1 AS n")
	require.NoError(t, err)
	pid, err := c.Pid()
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.NoError(t, c.Restart(t.Context()))
	require.Equal(t, 1, count(t, connect(t, c.URL())))
	require.NotEqual(t, c.Dir(), Cluster(t).Dir())
}

func TestClusterOfATemplateHoldsItsData(t *testing.T) {
	t.Parallel()
	require.Equal(t, 100, count(t, connect(t, ClusterOf(t, numbers()).URL())))
}

func TestClusterIsRemovedWithItsTest(t *testing.T) {
	t.Parallel()
	var dir string
	t.Run("Inner", func(t *testing.T) {
		dir = Cluster(t).Dir()
		require.DirExists(t, dir)
	})
	require.NoDirExists(t, dir)
}

func TestDirHoldsAClusterAndIsRemovedWithItsTest(t *testing.T) {
	t.Parallel()
	var dir string
	t.Run("Inner", func(t *testing.T) {
		dir = Dir(t)
		seed, release, err := golden(t.Context(), Template{Key: "empty"})
		require.NoError(t, err)
		defer release()
		c, err := devpg.Start(t.Context(), devpg.Config{Dir: dir, Seed: seed})
		require.NoError(t, err)
		require.NoError(t, c.Stop(t.Context()))
		require.DirExists(t, filepath.Join(dir, "data"), "the data is in the directory itself")
	})
	require.NoDirExists(t, dir)
}

func TestGoldenDirectoryIsBuiltOnceAndAgainForAnotherKey(t *testing.T) {
	t.Parallel()
	var built atomic.Int32
	template := Template{Key: t.Name() + time.Now().String(), Migrate: func(context.Context, string) error {
		built.Add(1)
		return nil
	}}
	dirs := make([]string, 3)
	var group sync.WaitGroup
	for i := range dirs {
		group.Go(func() {
			dir, release, err := golden(t.Context(), template)
			if err != nil {
				t.Error(err)
				return
			}
			dirs[i] = dir
			release()
		})
	}
	group.Wait()
	removeGolden(t, dirs[0])
	require.EqualValues(t, 1, built.Load())
	require.Equal(t, dirs[0], dirs[1])
	require.Equal(t, dirs[0], dirs[2])
	other, release, err := golden(t.Context(), Template{Key: "empty"})
	require.NoError(t, err)
	release()
	require.NotEqual(t, dirs[0], other)
}

// removeGolden removes a golden directory after the test.
func removeGolden(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.Remove(dir+lockSuffix))
	})
}

func TestGoldenDirectoryOfAFailedMigrationIsNotKept(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken migration")
	template := Template{Key: t.Name() + time.Now().String(), Migrate: func(context.Context, string) error { return broken }}
	_, _, err := golden(t.Context(), template)
	require.ErrorIs(t, err, broken)
	template.Migrate = nil
	dir, release, err := golden(t.Context(), template)
	require.NoError(t, err)
	release()
	removeGolden(t, dir)
	require.NoDirExists(t, dir+sideSuffix)
}

func TestUnusedGoldenDirectoriesAreRemoved(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	long := time.Now().Add(-2 * goldenAge)
	for name, used := range map[string]time.Time{"old": long, "copying": long, "new": time.Now()} {
		dir := filepath.Join(cache, goldenPrefix+name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Mkdir(dir+sideSuffix, 0o700))
		require.NoError(t, os.WriteFile(dir+lockSuffix, nil, 0o600))
		require.NoError(t, os.Chtimes(dir+lockSuffix, used, used))
	}
	lock, err := lockFile(filepath.Join(cache, goldenPrefix+"copying"+lockSuffix))
	require.NoError(t, err)
	defer lock.Close()
	removeUnused(cache)
	for name, kept := range map[string]bool{"old": false, "copying": true, "new": true} {
		for _, suffix := range []string{"", sideSuffix} {
			_, err := os.Stat(filepath.Join(cache, goldenPrefix+name+suffix))
			require.Equal(t, kept, err == nil, name+suffix)
		}
	}
}

// BenchmarkNewDatabase measures the cost of a test's database, including the drop.
func BenchmarkNewDatabase(b *testing.B) {
	for b.Loop() {
		b.Run("", func(b *testing.B) { NewDatabase(b, numbers()) })
	}
}
