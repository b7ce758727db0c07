package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"rubato/client"
)

// pausing pauses and resumes endpoints that nobody else does, and notes when each was paused, in database time.
type pausing struct {
	*stack
	ids    []string
	since  map[string]time.Time // when the pause call returned, of those that are paused
	pauses int
	broken []string
}

// step pauses or resumes one endpoint at random.
func (p *pausing) step(ctx context.Context) error {
	id := p.ids[rand.IntN(len(p.ids))]
	if _, paused := p.since[id]; paused {
		return p.resume(ctx, id)
	}
	p.pauses++
	if _, err := answer[client.Endpoint](p.api.PauseEndpoint(ctx, id, client.PauseEndpointJSONRequestBody{})); err != nil {
		return err
	}
	var returned time.Time
	err := p.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&returned)
	p.since[id] = returned
	return err
}

// resume looks for a run that started after the pause call had returned, and ends the pause.
func (p *pausing) resume(ctx context.Context, id string) error {
	var late int
	err := p.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM live_runs WHERE endpoint_id = substr($1, 4)::uuid AND started_at > $2)
		     + (SELECT count(*) FROM runs WHERE endpoint_id = substr($1, 4)::uuid AND started_at > $2 AND attempt > 0)`, id, p.since[id]).Scan(&late)
	if err != nil {
		return err
	}
	if late > 0 {
		p.broken = append(p.broken, fmt.Sprintf("%d runs of %s started after %s", late, id, p.since[id]))
	}
	delete(p.since, id)
	_, err = answer[client.Endpoint](p.api.ResumeEndpoint(ctx, id))
	return err
}

// However often endpoints are paused and resumed while they run, nothing starts once a pause call has returned.
func TestPausesUnderLoad(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	s.startWorkers(2)
	s.register(load{n: 40, path: "20", every: time.Second, limit: 2 * time.Second})

	const parts = 4
	var list []*pausing
	group, ctx := errgroup.WithContext(t.Context())
	for part := range parts {
		p := &pausing{stack: s, ids: s.ids[part*10 : part*10+10], since: map[string]time.Time{}}
		list = append(list, p)
		group.Go(func() error {
			for range size().pauses / parts {
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
		})
	}
	require.NoError(t, group.Wait())
	pauses := 0
	for _, p := range list {
		require.Empty(t, p.broken)
		pauses += p.pauses
	}

	r := s.conclude(verdict{
		name: "pauses under load", fault: "endpoints are paused and resumed at random", fired: fmt.Sprintf("%d pauses", pauses), ended: time.Now(),
	})
	require.Zero(t, r.Counts.Statuses["lost"])
}
