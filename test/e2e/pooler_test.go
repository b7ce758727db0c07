package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/devpg/devpgtest"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	"rubato/internal/store/pg"
)

// pooler is a running PgBouncer in front of a database.
type pooler struct {
	process *exec.Cmd
	log     string // file
	URL     string // of the database by way of it
	admin   string // URL of the pooler's admin console
}

// poolings are the pooling modes of the operations manual, with the changes to the manual's
// configuration.
func poolings() map[string]struct {
	since string // oldest release of PgBouncer with this mode
	mode  string
	query string // part that the manual appends to DATABASE_URL
} {
	return map[string]struct{ since, mode, query string }{
		"Transactions":                    {since: "1.21", mode: "transaction"},
		"TransactionsWithoutPreparedOnes": {since: "1.7", mode: "transaction", query: "default_query_exec_mode=cache_describe"},
		"Sessions":                        {since: "1.7", mode: "session"},
	}
}

// TestEverythingGoesThroughAPooler holds PgBouncer with the manual's configuration to every
// guarantee, in each pooling mode: runs, notifications, cancels and the sweeper's lock.
func TestEverythingGoesThroughAPooler(t *testing.T) {
	t.Parallel()
	program, version := findPooler(t)
	for name, way := range poolings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !atLeast(version, way.since) {
				t.Skipf("PgBouncer is %s here; pooling prepared statements needs %s", version, way.since) //nolint:forbidigo // Debian 12 has 1.18.
			}
			direct := pooledDatabase(t)
			p := startPooler(t, program, direct, poolerConfig(t, version, way.mode))
			through := p.URL + "&" + way.query
			requireSettingsHold(t, through)
			a := startDaemons(t, "DATABASE_URL="+through, "RUBATO_DATABASE_DIRECT_URL="+direct, "RUBATO_SWEEP_INTERVAL=500ms")
			requireWorkGoesOn(t, a)
			requireCancelsArrive(t, a)
			requireSweeps(t, direct)
			requireSharing(t, p, way.mode)
			card := start(t, t.TempDir(), []string{"DATABASE_URL=" + through}, "rubato", "audit", "--window", "1h")
			require.Equal(t, 0, card.wait(t, patience), card.output())
		})
	}
}

// findPooler returns the path of PgBouncer and its release.
func findPooler(t *testing.T) (program, version string) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		require.Empty(t, os.Getenv("RUBATO_TEST_PGBOUNCER"), "PgBouncer was promised, and is not on the PATH")
		t.Skip("PgBouncer is not on the PATH; the checks of every change bring it. To run this here: apt-get install pgbouncer") //nolint:forbidigo // Not every machine has it; the checks of every change do.
	}
	text, err := exec.CommandContext(t.Context(), program, "--version").Output()
	require.NoError(t, err)
	found := regexp.MustCompile(`(?i)pgbouncer (\d+\.\d+)`).FindSubmatch(text)
	require.NotNil(t, found, "%s", text)
	return program, string(found[1])
}

// atLeast compares releases such as 1.18 and 1.21.
func atLeast(version, since string) bool {
	number := func(v string) int {
		_, minor, _ := strings.Cut(v, ".")
		n, _ := strconv.Atoi(minor)
		return n
	}
	return number(version) >= number(since)
}

// pooledDatabase returns the URL of a migrated database on a server of the test's own. The role has
// the settings that the manual gives it.
func pooledDatabase(t *testing.T) string {
	t.Helper()
	cluster := devpgtest.Cluster(t)
	_, err := pg.MigrateUp(t.Context(), cluster.URL())
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), cluster.URL())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), manual(t, "sql", "ALTER ROLE"))
	require.NoError(t, err)
	return cluster.URL()
}

// manual returns the code block of the operations manual in a language that begins with a text.
func manual(t *testing.T, language, begin string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "```"+language+"\n"+begin)
	for indent := 1; indent <= 4 && !found; indent++ {
		pad := strings.Repeat(" ", indent)
		_, rest, found = strings.Cut(string(text), "```"+language+"\n"+pad+begin)
	}
	require.True(t, found, "the manual has no block of %s that begins with %s", language, begin)
	block, _, _ := strings.Cut(rest, "```")
	return begin + block
}

// poolerConfig returns the manual's configuration for a pooling mode.
func poolerConfig(t *testing.T, version, mode string) string {
	t.Helper()
	text := manual(t, "ini", "[databases]")
	_, text, found := strings.Cut(text, "[pgbouncer]\n")
	require.True(t, found)
	require.Contains(t, text, "pool_mode = transaction\n")
	text = strings.Replace(text, "pool_mode = transaction\n", "pool_mode = "+mode+"\n", 1)
	if !atLeast(version, "1.21") {
		text = regexp.MustCompile(`(?m)^max_prepared_statements.*\n`).ReplaceAllString(text, "")
	}
	if mode == "session" { // In this mode every client connection has a server connection of its own.
		text = regexp.MustCompile(`(?m)^default_pool_size.*$`).ReplaceAllString(text, "default_pool_size = 80")
	}
	return text
}

// startPooler starts PgBouncer in front of the database, with the manual's settings and those of
// the test.
func startPooler(t *testing.T, program, direct, settings string) *pooler {
	t.Helper()
	at, err := url.Parse(direct)
	require.NoError(t, err)
	listen := freeAddress(t)
	host, port, err := net.SplitHostPort(listen)
	require.NoError(t, err)
	dir := devpgtest.Dir(t)
	p := &pooler{log: filepath.Join(dir, "log")}
	p.URL = (&url.URL{Scheme: "postgres", User: at.User, Host: listen, Path: at.Path, RawQuery: "sslmode=disable"}).String()
	p.admin = (&url.URL{Scheme: "postgres", User: at.User, Host: listen, Path: "/pgbouncer", RawQuery: "sslmode=disable&default_query_exec_mode=simple_protocol"}).String()
	users := filepath.Join(dir, "users")
	require.NoError(t, os.WriteFile(users, fmt.Appendf(nil, "%q \"\"\n", at.User.Username()), 0o644))
	file := filepath.Join(dir, "pgbouncer.ini")
	name := strings.TrimPrefix(at.Path, "/")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "[databases]\n%s = host=%s dbname=%s\n[pgbouncer]\n%s\nlisten_addr = %s\n"+
		"listen_port = %s\nunix_socket_dir =\nauth_type = trust\nauth_file = %s\nadmin_users = %s\n",
		name, at.Query().Get("host"), name, settings, host, port, users, at.User.Username()), 0o644))
	p.run(t, program, file, at.Query().Get("host"))
	eventually(t, "PgBouncer to answer", func() bool {
		conn, err := pgx.Connect(t.Context(), p.URL)
		if err != nil {
			return false
		}
		return conn.Close(t.Context()) == nil
	})
	return p
}

// run runs the pooler until the end of the test. Like Postgres, it refuses to run as root.
func (p *pooler) run(t *testing.T, program, file, socketDir string) {
	t.Helper()
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o755))
	log, err := os.Create(p.log)
	require.NoError(t, err)
	p.process = exec.Command(program, file)
	p.process.Stdout, p.process.Stderr = log, log
	// The user of Postgres may reach its socket.
	if info, err := os.Stat(socketDir); os.Geteuid() == 0 && err == nil {
		if owner, known := info.Sys().(*syscall.Stat_t); known {
			p.process.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
		}
	}
	require.NoError(t, p.process.Start())
	t.Cleanup(func() {
		_ = p.process.Process.Kill()
		_ = p.process.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(p.log)
			t.Logf("PgBouncer wrote:\n%s", text[max(0, len(text)-4000):])
		}
	})
}

// requireSettingsHold requires that session settings of the programs hold although the pooler drops
// startup parameters.
func requireSettingsHold(t *testing.T, through string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), through)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	want := map[string]string{
		"default_transaction_isolation": "read committed", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off",
		"idle_in_transaction_session_timeout": "10s", "jit": "off", "plan_cache_mode": "force_custom_plan",
	}
	for name, value := range want {
		var got string
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got))
		require.Equal(t, value, got, name)
	}
	ignored := regexp.MustCompile(`(?m)^ignore_startup_parameters = (.*)$`).FindStringSubmatch(manual(t, "ini", "[databases]"))
	require.NotNil(t, ignored)
	for name := range strings.SplitSeq(ignored[1], ",") {
		name = strings.TrimSpace(name)
		// The manual documents these.
		lost := slices.Contains([]string{"enable_bitmapscan", "enable_indexonlyscan", "lock_timeout"}, name)
		_, set := want[name]
		require.True(t, set || lost, "%s is ignored on the way, and not set for the role", name)
	}
}

// requireWorkGoesOn requires that many endpoints run over connections that are shared between
// clients.
func requireWorkGoesOn(t *testing.T, a *api) {
	t.Helper()
	tgt, _ := newTarget(t)
	var ids []string
	for n := range 30 {
		e := a.register(t, client.EndpointSpec{
			Name: fmt.Sprintf("tick %d", n), URL: fmt.Sprintf("%s/tick/%d", tgt.URL, n), BaselineIntervalMs: new(int64(everySecond)),
		})
		ids = append(ids, e.ID)
	}
	for _, id := range ids {
		for _, r := range a.awaitRuns(t, id, 3) {
			require.Equal(t, client.RunStatusSucceeded, r.Status)
		}
	}
}

// requireCancelsArrive requires that a notification reaches the worker past the pooler.
func requireCancelsArrive(t *testing.T, a *api) {
	t.Helper()
	arrived, gone := make(chan struct{}, 10), make(chan struct{}, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	t.Cleanup(target.Close)
	e := a.register(t, client.EndpointSpec{Name: "hang", URL: target.URL, BaselineIntervalMs: new(int64(3600_000))})
	receive(t, "the request", arrived)
	running := a.endpoint(t, e.ID).Running
	require.NotNil(t, running)
	read[client.Run](t)(a.CancelRun(t.Context(), running.RunID, client.CancelRequest{}))
	receive(t, "the end of the request", gone)
	require.Equal(t, client.RunStatusCanceled, a.awaitRuns(t, e.ID, 1)[0].Status)
}

// requireSweeps requires that a worker leads the sweeps and holds the lock inside a transaction.
func requireSweeps(t *testing.T, direct string) {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{URL: direct})
	require.NoError(t, err)
	defer db.Close()
	eventually(t, "a leader", func() bool {
		alone, err := items.NewSweeps(endpointstore.NewStates(db, 0)).Lead(t.Context(), func(context.Context) error { return nil })
		require.NoError(t, err)
		return !alone
	})
	conn, err := pgx.Connect(t.Context(), direct)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var held int
	require.NoError(t, conn.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND a.state = 'idle'").Scan(&held))
	require.Zero(t, held, "no session holds a lock beyond its transaction")
}

// requireSharing requires that the programs connected through the pooler, and that in transaction
// mode many clients shared fewer server connections.
func requireSharing(t *testing.T, p *pooler, mode string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.admin)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	// show returns a table of the admin console, without its own connections. Every value in it is
	// text.
	show := func(what string) (rows []map[string]string) {
		results, err := conn.PgConn().Exec(t.Context(), "SHOW "+what).ReadAll()
		require.NoError(t, err)
		require.Len(t, results, 1)
		for _, values := range results[0].Rows {
			row := map[string]string{}
			for i, value := range values {
				row[results[0].FieldDescriptions[i].Name] = string(value)
			}
			if row["database"] != "pgbouncer" {
				rows = append(rows, row)
			}
		}
		return rows
	}
	transactions := 0
	for _, row := range show("STATS") {
		n, err := strconv.Atoi(row["total_xact_count"])
		require.NoError(t, err)
		transactions += n
	}
	require.Greater(t, transactions, 90, "at least a transaction for each run")
	clients, servers := len(show("CLIENTS")), len(show("SERVERS"))
	t.Logf("%s pooling: %d transactions of %d connections of the programs over %d of the database", mode, transactions, clients, servers)
	if mode == "transaction" {
		require.LessOrEqual(t, servers, clients)
	}
}
