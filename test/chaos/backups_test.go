package chaos

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/audit"
	"rubato/internal/devpg"
	"rubato/internal/devpg/devpgtest"
)

// archiving returns the server settings for log archiving that the operations manual gives.
func archiving(archive string) map[string]string {
	return map[string]string{
		"wal_level": "replica", "max_wal_senders": "4", "full_page_writes": "on", "archive_mode": "on",
		"archive_command": "test ! -f " + archive + "/%f && cp %p " + archive + "/%f", "archive_timeout": "1s",
	}
}

// backupStore keeps the backups of a database.
type backupStore struct {
	t       *testing.T
	cluster *devpg.Cluster // the server that is backed up
	dir     string         // the server may read and write here
	archive string         // archived segments of its log
}

// newVault starts a server that archives its log.
func newVault(t *testing.T) *backupStore {
	t.Helper()
	v := &backupStore{t: t, dir: devpgtest.Dir(t)}
	v.archive = filepath.Join(v.dir, "archive")
	require.NoError(t, os.Mkdir(v.archive, 0o777))
	require.NoError(t, os.Chmod(v.archive, 0o777)) // The server writes to the archive; a restore reads it.
	v.cluster = v.start("first", archiving(v.archive))
	return v
}

// start starts a server on a directory of the vault, which may hold a database already.
func (v *backupStore) start(name string, settings map[string]string) *devpg.Cluster {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), 2*time.Minute)
	defer cancel()
	cluster, err := devpg.Start(ctx, devpg.Config{Dir: filepath.Join(v.dir, name), Settings: settings})
	require.NoError(v.t, err)
	v.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = cluster.Stop(ctx)
	})
	return cluster
}

// run runs one of Postgres' own programs on a database.
func (v *backupStore) run(cluster *devpg.Cluster, name string, args ...string) {
	v.t.Helper()
	program := postgresProgram(v.t, cluster, name)
	out, err := exec.CommandContext(v.t.Context(), program, append([]string{"--dbname=" + cluster.URL()}, args...)...).CombinedOutput()
	require.NoError(v.t, err, "%s %s:\n%s", name, strings.Join(args, " "), out)
}

// postgresProgram returns the path of a client program of a server's release. It skips the test on
// a machine that has the server without its client programs.
func postgresProgram(t *testing.T, cluster *devpg.Cluster, name string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), cluster.URL())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var version int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int / 10000").Scan(&version))
	path := fmt.Sprintf("/usr/lib/postgresql/%d/bin/%s", version, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err = exec.LookPath(name)
	if err == nil {
		text, err := exec.CommandContext(t.Context(), path, "--version").Output()
		require.NoError(t, err)
		if strings.Contains(string(text), fmt.Sprintf(" %d", version)) {
			return path
		}
	}
	require.Empty(t, os.Getenv("RUBATO_TEST_BACKUPS"), "%s of Postgres %d was promised, and is not here", name, version)
	t.Skipf("%s of Postgres %d is not here; the checks of every change bring it. To run this here: apt-get install postgresql", name, version) //nolint:forbidigo // Not every machine has it; the checks of every change do.
	return ""
}

// give makes the server's account the owner of the files that this process has written.
func (v *backupStore) give(dir string) {
	v.t.Helper()
	info, err := os.Stat(filepath.Join(v.dir, "first", "data"))
	require.NoError(v.t, err)
	owner, known := info.Sys().(*syscall.Stat_t)
	if !known || os.Geteuid() != 0 {
		return
	}
	require.NoError(v.t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	}))
}

// backup is a way to back up and restore. Take begins while everything runs and returns what
// restores into a new server.
type backup struct {
	name string
	take func(v *backupStore, moment func()) (restore func() *devpg.Cluster)
}

// backups are the backup methods of the operations manual. Each calls moment at the instant to
// which it restores.
func backups() []backup {
	return []backup{
		{"a dump", func(v *backupStore, moment func()) func() *devpg.Cluster {
			moment()
			file := filepath.Join(v.dir, "dump")
			v.run(v.cluster, "pg_dump", "--format=custom", "--file="+file)
			return func() *devpg.Cluster {
				restored := v.start("restored", nil)
				v.run(restored, "pg_restore", "--exit-on-error", "--single-transaction", file)
				return restored
			}
		}},
		{"a point in time", func(v *backupStore, moment func()) func() *devpg.Cluster {
			data := filepath.Join(v.dir, "restored", "data")
			require.NoError(v.t, os.Mkdir(filepath.Dir(data), 0o755))
			v.run(v.cluster, "pg_basebackup", "--pgdata="+data, "--checkpoint=fast", "--wal-method=none")
			moment()
			target := v.text("SELECT clock_timestamp()::text")
			return func() *devpg.Cluster {
				require.NoError(v.t, os.WriteFile(filepath.Join(data, "recovery.signal"), nil, 0o600))
				v.give(filepath.Dir(data))
				settings := archiving(filepath.Join(v.dir, "archive of the restored"))
				settings["archive_mode"] = "off"
				settings["restore_command"] = "cp " + v.archive + "/%f %p"
				settings["recovery_target_time"] = target
				settings["recovery_target_action"] = "promote"
				restored := v.start("restored", settings)
				eventually(v.t, "the end of the recovery", func() bool { return textOf(v.t, restored, "SELECT pg_is_in_recovery()::text") == "false" })
				return restored
			}
		}},
	}
}

func (v *backupStore) text(sql string) string { return textOf(v.t, v.cluster, sql) }

func textOf(t *testing.T, cluster *devpg.Cluster, sql string) (s string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), cluster.URL())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&s))
	return s
}

// memory holds the runs that a restored database contains.
type memory struct {
	over map[string]bool // runs that are over
	live map[string]bool // runs that were live

	refused int // requests that the target had refused by their fence before
}

func (s *stack) remembers() memory {
	s.t.Helper()
	ids := func(sql string) map[string]bool {
		rows, err := s.pool.Query(s.t.Context(), sql)
		require.NoError(s.t, err)
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(s.t, err)
		set := map[string]bool{}
		for _, id := range list {
			set["run_"+id] = true
		}
		return set
	}
	return memory{over: ids("SELECT id::text FROM runs"), live: ids("SELECT run_id::text FROM live_runs"), refused: s.target.refusals()}
}

// TestRestoredBackups holds backups to the promises of the operations manual. It backs up under
// load, loses the database and every program later, restores into a new server by the manual's
// steps, and starts workers there.
func TestRestoredBackups(t *testing.T) {
	t.Parallel()
	for _, how := range backups() {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t)
			before := newStackOn(t, v.cluster, nil)
			before.startWorkers(2)
			before.register(load{n: 20, path: "20", every: time.Second, limit: lockTTL})
			before.register(load{n: 5, path: "hang", every: time.Second, limit: 20 * time.Second, noSpread: true})
			restore := how.take(v, func() {
				eventually(t, "runs in flight and runs that are over", func() bool {
					return before.target.open() >= 5 && before.count("SELECT count(*) FROM runs") >= 60
				})
			})
			taken := before.count("SELECT count(*) FROM runs")
			eventually(t, "runs that the backup does not know", func() bool { return before.count("SELECT count(*) FROM runs") >= taken+60 })
			before.lose(v)

			restored := restore()
			after := before.on(restored)
			known := after.remembers()
			require.GreaterOrEqual(t, len(known.over), 60)
			require.GreaterOrEqual(t, len(known.live), 5, "runs were live at the restore point")
			after.raiseFences()
			lost := time.Now()
			after.startWorkers(2)
			after.requireRestored(known, lost)
		})
	}
}

// lose kills every program and ends the server for good.
func (s *stack) lose(v *backupStore) {
	s.t.Helper()
	for _, p := range append([]*process{s.server}, s.workers[0].process, s.workers[1].process) {
		p.signal(s.t, syscall.SIGKILL)
		p.gone(s.t)
	}
	// The server streams or archives the current segment, so the segment survives it.
	_, err := s.pool.Exec(s.t.Context(), "SELECT pg_switch_wal()")
	require.NoError(s.t, err)
	segment := v.text("SELECT pg_walfile_name(pg_switch_wal())")
	eventually(s.t, "the log to be archived", func() bool {
		return v.text("SELECT coalesce(max(last_archived_wal), '') FROM pg_stat_archiver") >= segment || v.idle()
	})
	require.NoError(s.t, v.cluster.Stop(s.t.Context()))
}

// idle reports whether nothing of the log waits to be archived.
func (v *backupStore) idle() bool {
	waiting, err := filepath.Glob(filepath.Join(v.dir, "first", "data", "pg_wal", "archive_status", "*.ready"))
	return err == nil && len(waiting) == 0
}

// on returns the stack on a restored server: the same target and endpoints, an API server and no
// worker.
func (s *stack) on(cluster *devpg.Cluster) *stack {
	s.t.Helper()
	after := newStackOn(s.t, cluster, map[string]string{"DATABASE_URL": cluster.URL()})
	after.target, after.ids, after.longest = s.target, s.ids, s.longest
	return after
}

// raiseFences carries out the step that the manual demands before a worker starts.
func (s *stack) raiseFences() {
	s.t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(s.t, err)
	const begins = "UPDATE schedules SET claim_token"
	_, rest, found := strings.Cut(string(text), begins)
	require.True(s.t, found, "the manual has no statement that raises the fences")
	statement, _, _ := strings.Cut(rest, "```")
	tag, err := s.pool.Exec(s.t.Context(), begins+statement)
	require.NoError(s.t, err)
	require.GreaterOrEqual(s.t, tag.RowsAffected(), int64(5), "runs in flight are raised with their rows")
}

// requireRestored requires of a restored database everything that the manual promises.
func (s *stack) requireRestored(known memory, restarted time.Time) {
	s.t.Helper()
	eventually(s.t, "what was live at the restore point to be settled", func() bool {
		return s.count("SELECT count(*) FROM live_runs WHERE 'run_' || run_id::text = ANY ($1)", keys(known.live)) == 0
	})
	settled := s.count("SELECT count(*) FROM runs WHERE status = 'lost' AND reason_code = 'worker_lost' AND 'run_' || id::text = ANY ($1)", keys(known.live))
	require.Equal(s.t, len(known.live), settled, "every run that was live is lost, and recorded as that")
	s.target.release()
	s.awaitOnSchedule()
	s.quiesce()

	var remembered []audit.Request // requests of runs that the restored database contains
	seen, since, again := map[string]bool{}, 0, 0
	for _, r := range s.target.requests() {
		if r.Arrived.Before(restarted) {
			seen[r.RunID] = true
			if known.over[r.RunID] {
				remembered = append(remembered, r)
			}
			continue
		}
		require.False(s.t, known.over[r.RunID], "%s is over in the restored database, and was sent once more", r.RunID)
		require.False(s.t, known.live[r.RunID], "%s was live at the restore point, and was sent once more under its own ID", r.RunID)
		if seen[r.RunID] {
			again++
		}
		since++
		remembered = append(remembered, r)
	}
	require.Equal(s.t, known.refused, s.target.refusals(), "a target that guards by the fence takes every request of the restored database")
	require.Positive(s.t, since)
	require.Positive(s.t, again, "what the database has forgotten runs again, and the target is told so by the ID")
	report, err := audit.Run(s.t.Context(), s.cluster.URL(), audit.Options{Requests: remembered, LockTTL: lockTTL, Quiet: true})
	require.NoError(s.t, err)
	if report.Breaches() > 0 {
		var card strings.Builder
		require.NoError(s.t, report.WriteCard(&card))
		s.t.Errorf("promises were broken:\n%s", card.String())
	}
	s.auditByProgram()
	require.Positive(s.t, report.Check(audit.NoLostDueTime).Checked)
	s.t.Logf("%d runs over and %d live at the restore point; %d requests since, %d of them with the ID of a run that the target had seen",
		len(known.over), len(known.live), since, again)
}

func keys(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for key := range set {
		list = append(list, key)
	}
	return list
}
