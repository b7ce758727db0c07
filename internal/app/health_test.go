package app_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/app"
	"rubato/internal/app/apiserver"
	"rubato/internal/claims"
	"rubato/internal/config"
	"rubato/internal/endpoints"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/telemetry"
	"rubato/internal/waittest"
)

// link is a way to the database that a test can cut.
type link struct {
	url string // of the database, through the link
	to  string // the socket of the database

	mu     sync.Mutex
	down   bool
	conns  []net.Conn
	copies sync.WaitGroup

	silent sync.RWMutex // held while nothing gets through
}

// blackholeConn is an end of a link to which nothing gets through while that is silent.
type blackholeConn struct {
	net.Conn

	silent *sync.RWMutex
}

func (m blackholeConn) Write(b []byte) (int, error) {
	m.silent.RLock()
	defer m.silent.RUnlock()
	return m.Conn.Write(b)
}

func newLink(t *testing.T, database string) *link {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	l := &link{to: u.Query().Get("host") + "/.s.PGSQL.5432"} // A private Postgres listens on a socket.
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.copies.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			l.join(near)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut()
		l.copies.Wait()
	})
	u.Host, u.RawQuery = listener.Addr().String(), "sslmode=disable"
	l.url = u.String()
	return l
}

// join copies between a client and the database until one of them hangs up or the link is cut.
func (l *link) join(near net.Conn) {
	far, err := new(net.Dialer).DialContext(context.Background(), "unix", l.to)
	if err != nil {
		_ = near.Close()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		_ = near.Close()
		_ = far.Close()
		return
	}
	l.conns = append(l.conns, near, far)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		l.copies.Go(func() {
			_, _ = io.Copy(blackholeConn{way[0], &l.silent}, way[1])
			_ = way[0].Close()
		})
	}
}

// cut ends every connection, and every new one at once: the link goes on listening, as its port may
// be another's before it is mended.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// mend lets connections through again.
func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// TestShutdownDoesNotWaitForAnUnresponsiveDatabase leaves a statement in every pool without an
// answer, and requires that the end comes long before the driver gives such a connection up, which
// is after 15 s.
func TestShutdownDoesNotWaitForAnUnresponsiveDatabase(t *testing.T) {
	t.Parallel()
	l := newLink(t, migrated(t))
	db, err := pg.Open(t.Context(), pg.Config{URL: l.url})
	require.NoError(t, err)
	claim := func(ctx context.Context) error {
		_, _, err := items.NewClaims(db).ClaimDue(ctx, claims.Request{Limit: 1, LockTTL: time.Minute})
		return err
	}
	statements := []func(context.Context) error{db.Ping, claim}
	for _, statement := range statements {
		require.NoError(t, statement(t.Context()))
	}
	l.silent.Lock()
	t.Cleanup(l.silent.Unlock)
	for _, statement := range statements {
		brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		require.Error(t, statement(brief))
		cancel()
	}
	begin := time.Now()
	db.Close()
	require.Less(t, time.Since(begin), 10*time.Second)
}

// reportOf returns what /readyz of an admin listener says.
func reportOf(t *testing.T, admin string) telemetry.Report {
	t.Helper()
	var report telemetry.Report
	require.NoError(t, json.Unmarshal([]byte(bodyOf(t, admin+"/readyz")), &report))
	return report
}

// TestReadinessFollowsTheDatabase cuts a worker and an API server off, and requires that they say
// so within three polls, say since when, go on living, and are ready again within three polls of
// the end.
func TestReadinessFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	database := newLink(t, migrated(t))
	cfg := settings(t, database.url, "RUBATO_POLL_INTERVAL=2s")
	discard := slog.New(slog.DiscardHandler)
	worker := background(t, func(ctx context.Context, started func(app.Addresses)) error {
		return app.Worker{Settings: cfg, Logger: discard, Started: started}.Run(ctx)
	})
	api := background(t, func(ctx context.Context, started func(app.Addresses)) error {
		return apiserver.API{Settings: cfg, Logger: discard, Started: started}.Run(ctx)
	})
	listeners := []string{worker.Admin, api.Admin, api.API}
	all := func(status int) func() bool {
		return func() bool {
			for _, url := range listeners {
				if statusOf(t, url+"/readyz") != status {
					return false
				}
			}
			return true
		}
	}
	waittest.Until(t, all(http.StatusOK))
	require.True(t, containsLine(bodyOf(t, worker.Admin+"/metrics"), "rubato_database_up 1"))

	cut := time.Now()
	database.cut()
	waittest.Until(t, all(http.StatusServiceUnavailable), "it is not ready within three polls")
	for admin, check := range map[string]string{worker.Admin: "claims", api.Admin: "database"} {
		waittest.Until(t, func() bool { // The pulse of a worker may fail a moment before its claims do.
			return slices.ContainsFunc(reportOf(t, admin).Checks, func(c telemetry.CheckState) bool { return c.Name == check && !c.OK })
		}, "%s stays well", check)
		report := reportOf(t, admin)
		require.Equal(t, telemetry.NotReady, report.Status)
		for _, c := range report.Checks {
			if c.Name == "heartbeat_writes" || c.Name == "space" { // They take a moment longer, because three signs of life or a probe must have failed.
				continue
			}
			require.Equal(t, c.Name != check, c.OK, c.Name)
			if c.Name == check {
				require.WithinRange(t, c.Since, cut.Add(-time.Second), time.Now())
			}
		}
	}
	require.Contains(t, bodyOf(t, api.API+"/readyz"), `"field":"database"`)
	for _, url := range listeners {
		require.Equal(t, http.StatusOK, statusOf(t, url+"/healthz"), "the process is well")
	}
	waittest.Until(t, func() bool {
		text := bodyOf(t, worker.Admin+"/metrics")
		return containsLine(text, "rubato_database_up 0") && !containsLine(text, "rubato_schedule_due 0")
	}, "what it cannot read it does not tell")

	database.mend()
	waittest.Until(t, all(http.StatusOK), "it is ready within three polls")
}

// TestDrainingWorkerIsNotReadyAndServesMetrics looks at a worker between its signal and its end.
func TestDrainingWorkerIsNotReadyAndServesMetrics(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-leave
	}))
	defer target.Close()
	cfg := settings(t, migrated(t), "RUBATO_SHUTDOWN_GRACE=30s", "RUBATO_EGRESS_ALLOW=127.0.0.0/8")
	register(t, cfg, target.URL)
	news, ended := make(chan app.Addresses, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- app.Worker{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Started: func(a app.Addresses) { news <- a }}.Run(ctx)
	}()
	admin := (<-news).Admin
	<-entered

	stop()

	waittest.Until(t, func() bool {
		report := reportOf(t, admin)
		return !report.Ready() && report.Checks[0] == (telemetry.CheckState{
			Name: "draining", Since: report.Checks[0].Since, Error: "the worker is draining",
		})
	})
	require.Equal(t, http.StatusOK, statusOf(t, admin+"/healthz"))
	close(leave)
	require.NoError(t, <-ended)
}

// register stores an endpoint that is due at once.
func register(t *testing.T, cfg config.Config, url string) {
	t.Helper()
	c, err := app.OpenCore(t.Context(), cfg, slog.New(slog.DiscardHandler), 1)
	require.NoError(t, err)
	defer c.Close(t.Context())
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "probe", url, time.Hour
	_, _, err = c.Endpoints().Register(t.Context(), endpoints.Actor{TenantID: keystore.DefaultTenant, Name: "tester"}, spec)
	require.NoError(t, err)
}

func containsLine(text, line string) bool { return slices.Contains(strings.Split(text, "\n"), line) }
