package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/schedule"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
)

const (
	registered = 20_000
	batchSize  = 200
)

// stage is a database with overdue endpoints and a worker. Its Postgres does not wait for the disk,
// because commits are compared by the processor time of a statement. `go run ./test/bench` measures
// with a disk.
type stage struct {
	pool   *pgxpool.Pool
	claims *items.Claims
	worker [16]byte
}

func newStage(b *testing.B) *stage {
	b.Helper()
	url := devpgtest.NewDatabase(b, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	db, err := pg.Open(b.Context(), pg.Config{URL: url})
	require.NoError(b, err)
	b.Cleanup(db.Close)
	pool, err := pgxpool.New(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "bench", "http://target.example/", time.Hour
	_, _, err = endpoints.NewService(endpointstore.NewStore(endpointstore.NewStates(db, 0)), anyTarget{}).Register(b.Context(), endpoints.Actor{TenantID: keystore.DefaultTenant, Name: "bench"}, spec)
	require.NoError(b, err)
	s := &stage{pool: pool, claims: items.NewClaims(db), worker: [16]byte{1}}
	s.exec(b, `INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, spec)
		SELECT overlay(id::text PLACING lpad(to_hex(n), 12, '0') FROM 25)::uuid, tenant_id, version, created_at, updated_at, spec
		FROM endpoints, generate_series(2, $1::int) n`, registered)
	s.exec(b, `INSERT INTO schedules SELECT made.* FROM schedules t, endpoints e,
		LATERAL jsonb_populate_record(t, jsonb_build_object('endpoint_id', e.id)) made WHERE e.id <> t.endpoint_id`)
	s.exec(b, `UPDATE schedules SET due_at = at, planned_at = at, slot = at
		FROM (SELECT endpoint_id AS id, now() - row_number() OVER () * interval '1 ms' AS at FROM schedules) o WHERE o.id = endpoint_id`)
	s.exec(b, "VACUUM (ANALYZE) endpoints, schedules")
	return s
}

// anyTarget allows every URL and header.
type anyTarget struct{}

func (anyTarget) CheckURL(string) *errs.Field            { return nil }
func (anyTarget) CheckHeader(string, string) *errs.Field { return nil }

func (s *stage) exec(b *testing.B, sql string, args ...any) {
	b.Helper()
	_, err := s.pool.Exec(b.Context(), sql, args...)
	require.NoError(b, err)
}

func (s *stage) claim(b *testing.B) []claims.Claim {
	b.Helper()
	list, _, err := s.claims.ClaimDue(b.Context(), claims.Request{Worker: s.worker, Limit: batchSize, Horizon: 10 * time.Second, LockTTL: time.Minute})
	require.NoError(b, err)
	require.Len(b, list, batchSize)
	return list
}

// again makes endpoints due anew, behind all the others, for a time that no run has stood for.
func (s *stage) again(b *testing.B, list []claims.Claim) {
	b.Helper()
	ids := make([][16]byte, len(list))
	for i, c := range list {
		ids[i] = c.EndpointID
	}
	s.exec(b, `UPDATE schedules SET due_at = at, planned_at = at, slot = at, claimed_by = NULL, claimed_at = NULL, claim_token = claim_token + 1
		FROM (SELECT date_trunc('milliseconds', clock_timestamp()) AS at) now WHERE endpoint_id = ANY ($1)`, ids)
}

// BenchmarkClaim takes 200 of 20,000 due endpoints.
func BenchmarkClaim(b *testing.B) {
	s := newStage(b)
	for b.Loop() {
		list := s.claim(b)
		b.StopTimer()
		s.again(b, list)
		b.StartTimer()
	}
}

// BenchmarkDecide decides about the run after one. The package has more cases.
func BenchmarkDecide(b *testing.B) {
	last := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
	cron, err := schedule.Parse(schedule.Spec{Expression: "*/5 * * * *", Zone: "Europe/Berlin"})
	require.NoError(b, err)
	for _, bc := range []struct {
		name     string
		baseline governor.Baseline
	}{
		{"Interval", governor.Baseline{Interval: time.Minute}},
		{"Cron", governor.Baseline{Cron: cron}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			in := governor.Input{EndpointID: [16]byte{1}, Now: last.Add(time.Second), Anchor: last, LastSlot: last, Baseline: bc.baseline}
			for b.Loop() {
				_ = governor.Decide(in)
			}
		})
	}
}

// BenchmarkCronNext looks for the next time of a cron expression. The package has more cases.
func BenchmarkCronNext(b *testing.B) {
	from := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
	for _, expression := range []string{"* * * * *", "30 2 * * *", "0 0 29 2 *"} {
		b.Run(fmt.Sprintf("%q", expression), func(b *testing.B) {
			cron, err := schedule.Parse(schedule.Spec{Expression: expression, Zone: "Europe/Berlin"})
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				cron.Next(from)
			}
		})
	}
}
