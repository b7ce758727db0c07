package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"rubato/client"
	"rubato/internal/audit"
)

// wireTolerance is how much later than the return of a pause call a target may see a request. A
// worker sends within a second of the start that the pause found committed, and the target may take
// a moment to see it.
const wireTolerance = 1500 * time.Millisecond

// pauseLoad pauses and resumes endpoints that nothing else changes, and records the time of each
// pause.
type pauseLoad struct {
	*stack
	ids    []string
	since  map[string]pause // those that are paused
	over   []pause
	broken []string
}

// pause is a time in which an endpoint was paused: from the return of the pause call to the start
// of the resume call.
type pause struct {
	endpoint string
	began    time.Time // by the target's clock
	ended    time.Time // likewise
	returned time.Time // the beginning in database time
	// the run that was live then, if any; the pause does not decide when its worker sends it
	live uuid.UUID
}

// step pauses or resumes one endpoint at random.
func (p *pauseLoad) step(ctx context.Context) error {
	id := p.ids[rand.IntN(len(p.ids))]
	if _, paused := p.since[id]; paused {
		return p.resume(ctx, id)
	}
	if err := p.pause(ctx, id); err != nil {
		return err
	}
	one := pause{endpoint: id, began: time.Now()}
	err := p.pool.QueryRow(ctx, `
		SELECT clock_timestamp(), coalesce((SELECT run_id FROM live_runs WHERE endpoint_id = substr($1, 4)::uuid), '00000000-0000-0000-0000-000000000000')`,
		id).Scan(&one.returned, &one.live)
	p.since[id] = one
	return err
}

// resume looks for a run that started after the return of the pause call, and ends the pause.
func (p *pauseLoad) resume(ctx context.Context, id string) error {
	one := p.since[id]
	var late string
	err := p.pool.QueryRow(ctx, `
		SELECT coalesce(string_agg(format('%s %s planned %s started %s', kind, run, slot, started_at), '; '), '')
		FROM (SELECT 'live' AS kind, run_id AS run, endpoint_id, slot, started_at, attempt FROM live_runs
		      UNION ALL SELECT 'over', id, endpoint_id, scheduled_for, started_at, attempt FROM runs) r
		WHERE endpoint_id = substr($1, 4)::uuid AND started_at > $2 AND attempt > 0 AND run <> $3`, id, one.returned, one.live).Scan(&late)
	if err != nil {
		return err
	}
	if late != "" {
		p.broken = append(p.broken, fmt.Sprintf("%s started after %s: %s", id, one.returned, late))
	}
	delete(p.since, id)
	one.ended = time.Now()
	p.over = append(p.over, one)
	_, err = answer[client.Endpoint](p.api.ResumeEndpoint(ctx, id))
	return err
}

// calls makes n calls and then ends every pause.
func (p *pauseLoad) calls(ctx context.Context, n int) error {
	for range n {
		if err := p.step(ctx); err != nil {
			return err
		}
	}
	for id := range p.since {
		if err := p.resume(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// arrivals returns, for each request that arrived during a pause, the time since the beginning of
// the pause.
func (s *stack) arrivals(pauses []pause) []time.Duration {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), "SELECT id, endpoint_id FROM runs")
	require.NoError(s.t, err)
	endpointOf := map[string]string{}
	var run, endpoint uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&run, &endpoint}, func() error {
		endpointOf["run_"+run.String()] = "ep_" + endpoint.String()
		return nil
	})
	require.NoError(s.t, err)
	byEndpoint := map[string][]time.Time{}
	for _, r := range s.target.requests() {
		byEndpoint[endpointOf[r.RunID]] = append(byEndpoint[endpointOf[r.RunID]], r.Arrived)
	}
	var late []time.Duration
	for _, p := range pauses {
		require.NotEmpty(s.t, byEndpoint[p.endpoint], "%s never ran", p.endpoint)
		for _, at := range byEndpoint[p.endpoint] {
			if at.After(p.began) && at.Before(p.ended) {
				late = append(late, at.Sub(p.began))
			}
		}
	}
	return late
}

// Nothing starts after the return of a pause call, however often endpoints are paused and resumed
// while they run. This holds exactly by the database's clock. By the target's clock a request may
// arrive within wireTolerance, because its start was committed before.
func TestPausesUnderLoad(t *testing.T) {
	t.Parallel()
	s := newStack(t, map[string]string{"RUBATO_API_RATE": "0"}) // Without a rate limit on calls.
	s.startWorkers(2)
	s.register(load{n: 40, path: "20", every: time.Second, limit: 2 * time.Second})
	eventually(t, "every endpoint to run", func() bool { return s.count("SELECT count(DISTINCT endpoint_id) FROM runs") >= len(s.ids) })

	const parts = 4
	var list []*pauseLoad
	group, ctx := errgroup.WithContext(t.Context())
	for ids := range slices.Chunk(s.ids, len(s.ids)/parts) {
		p := &pauseLoad{stack: s, ids: ids, since: map[string]pause{}}
		list = append(list, p)
		group.Go(func() error { return p.calls(ctx, size().pauses/parts) })
	}
	require.NoError(t, group.Wait())
	var pauses []pause
	for _, p := range list {
		require.Empty(t, p.broken)
		pauses = append(pauses, p.over...)
	}
	require.GreaterOrEqual(t, 2*len(pauses), size().pauses)

	r := s.conclude(verdict{
		name: "pauses under load", fault: "endpoints are paused and resumed at random", ended: time.Now(),
		fired: fmt.Sprintf("%d calls, %d pauses", 2*len(pauses), len(pauses)),
	})
	require.Zero(t, r.Counts.Statuses["lost"])
	// A pause during a live run, or one about to be sent, takes effect when that run finishes: the
	// ledger has a rule of its own for it.
	require.GreaterOrEqual(t, r.Check(audit.PauseHolds).Checked, len(pauses)*9/10)
	for _, late := range s.arrivals(pauses) {
		s.requireWithin(wireTolerance, late.Milliseconds(), always, "a request arrived long after the pause call had returned")
	}
}
