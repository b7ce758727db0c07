package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/dispatch"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
)

const (
	hostileRuns    = 24              // endpoints of the attacker, once a second each
	honestRuns     = 20              // endpoints of another tenant, likewise
	hostileSamples = 20 * honestRuns // 20 s of its requests
)

// BenchmarkLagBesideHostileRules is how late runs of one tenant start before and while another
// tenant has large answers judged and redacted by paths that name each value four times. It takes
// 40 seconds for each iteration: run it with -benchtime 1x.
func BenchmarkLagBesideHostileRules(b *testing.B) {
	for b.Loop() {
		h := startHostile(b)
		calm := h.lags()
		h.attack(b)
		attacked := h.lags()
		lost := 0
		require.NoError(b, h.pool.QueryRow(b.Context(), "SELECT count(*) FROM runs WHERE status = 'lost'").Scan(&lost))
		b.ReportMetric(calm[len(calm)/2], "calm-p50-ms")
		b.ReportMetric(attacked[len(attacked)/2], "attacked-p50-ms")
		b.ReportMetric(attacked[len(attacked)*95/100], "attacked-p95-ms")
		b.ReportMetric(attacked[len(attacked)/2]/calm[len(calm)/2], "ratio-p50")
		b.ReportMetric(peakMiB(b), "peak-MiB")
		b.ReportMetric(float64(lost), "lost-runs")
	}
}

// hostile is a worker with a tenant that behaves.
type hostile struct {
	pool    *pgxpool.Pool
	service *endpoints.Service

	mu   sync.Mutex
	late []float64     // ms
	full chan struct{} // closed when as many are there as a phase takes
}

func startHostile(b *testing.B) *hostile {
	b.Helper()
	url := devpgtest.NewDatabase(b, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	db, err := pg.Open(b.Context(), pg.Config{URL: url})
	require.NoError(b, err)
	b.Cleanup(db.Close)
	h := &hostile{service: endpoints.NewService(endpointstore.NewStore(endpointstore.NewStates(db, 0)), anywhere{})}
	h.pool, err = pgxpool.New(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(h.pool.Close)
	target := httptest.NewServer(http.HandlerFunc(h.arrived))
	b.Cleanup(target.Close)
	h.register(b, keystore.DefaultTenant, honestRuns, func(s *endpoints.Spec) {
		s.URL = target.URL
		s.SuccessRules = []endpoints.AnswerRule{{Type: "json", JSONPath: "$.ok", Op: "equals", Value: true}}
	})
	client := egress.New(egress.Config{Rules: egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	worker := dispatch.New(dispatch.Config{
		Name: "bench", Version: "v1", Slots: 200, Rules: claims.Rules{Horizon: 10 * time.Second, LockTTL: 30 * time.Second},
		PollInterval: 500 * time.Millisecond, Grace: 10 * time.Second, Claims: items.NewClaims(db), Executions: items.NewExecutions(endpointstore.NewStates(db, 0)),
		Egress: client, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-ended; client.Close() })
	return h
}

func (h *hostile) register(b *testing.B, tenant [16]byte, n int, edit func(*endpoints.Spec)) {
	b.Helper()
	for i := range n {
		spec := endpoints.Defaults()
		spec.Name, spec.BaselineInterval = "probe "+strconv.Itoa(i), time.Second
		edit(&spec)
		_, _, err := h.service.Register(b.Context(), endpoints.Actor{TenantID: tenant, Name: "bench"}, spec)
		require.NoError(b, err)
	}
}

// arrived notes how late a request of the tenant that behaves is.
func (h *hostile) arrived(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	due, err := time.Parse(time.RFC3339, r.Header.Get("Rubato-Scheduled-For"))
	if err == nil {
		h.mu.Lock()
		h.late = append(h.late, float64(now.Sub(due).Microseconds())/1000)
		if h.full != nil && len(h.late) == hostileSamples {
			close(h.full)
		}
		h.mu.Unlock()
	}
	_, _ = w.Write([]byte(`{"ok":true}`))
}

// lags returns how late the next requests are, the smallest first.
func (h *hostile) lags() []float64 {
	full := make(chan struct{})
	h.mu.Lock()
	h.late, h.full = nil, full
	h.mu.Unlock()
	<-full
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(slices.Values(h.late[:hostileSamples]))
}

// attack registers the endpoints of the other tenant.
func (h *hostile) attack(b *testing.B) {
	b.Helper()
	const path = "$[::1,::1,::1,::1]"
	tenant := uuid.Must(uuid.NewV7())
	_, err := h.pool.Exec(b.Context(), "INSERT INTO tenants (id, name) VALUES ($1, 'attacker')", tenant)
	require.NoError(b, err)
	answer := []byte("[" + strings.Repeat(`"aaaaaaa",`, 95_000) + `"a"]`)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
	b.Cleanup(target.Close)
	h.register(b, tenant, hostileRuns, func(s *endpoints.Spec) {
		s.URL, s.MaxResponseKB, s.MaxExecutionTime = target.URL, 1024, 10*time.Second
		s.Timeout = 10 * time.Second
		s.SuccessRules = slices.Repeat([]endpoints.AnswerRule{{Type: "json", JSONPath: path, Op: "matches", Value: "^a+$"}}, 16)
		s.Redact = slices.Repeat([]endpoints.RedactRule{{JSONPath: path}}, 32)
	})
}

// peakMiB returns the most memory that this process has had, its targets included.
func peakMiB(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kb float64
	_, err = fmt.Sscan(rest, &kb)
	require.NoError(b, err)
	return kb / 1024
}
