package views_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/feed"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
	"rubato/internal/store/views"
	"rubato/internal/waittest"
	"rubato/internal/zombie"
)

// reader follows the feed from now on.
type reader struct {
	*bundle

	q feed.Query
}

func (b *bundle) watch(t *testing.T, types ...feed.Type) *reader {
	t.Helper()
	head, _, err := views.NewFeed(b.DB).Head(t.Context())
	require.NoError(t, err)
	return &reader{bundle: b, q: feed.Query{TenantID: storetest.Tenant.TenantID, After: head, Limit: 100, Types: types}}
}

// settled waits until every transaction that began before is over, those of other tests in the same
// server too.
func (b *bundle) settled(t *testing.T) {
	t.Helper()
	last := storetest.Query[int64](t, b.Bundle, "SELECT pg_current_xact_id()::text::bigint")
	waittest.Until(t, func() bool {
		head, _, err := views.NewFeed(b.DB).Head(t.Context())
		return err == nil && head.TxID > last
	})
}

// next reads to the end of the feed, in pages.
func (r *reader) next(t *testing.T) []feed.Event {
	t.Helper()
	r.settled(t)
	return r.pages(t)
}

func (r *reader) pages(t *testing.T) []feed.Event {
	t.Helper()
	var all []feed.Event
	for {
		page, err := views.NewFeed(r.DB).Read(t.Context(), r.q)
		require.NoError(t, err)
		all = append(all, page.Events...)
		r.q.After = page.Next
		if !page.More {
			return all
		}
	}
}

func typesOf(list []feed.Event) []feed.Type {
	types := []feed.Type{}
	for _, e := range list {
		types = append(types, e.Type)
	}
	return types
}

func TestEveryChangeReachesFeed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	r := b.watch(t)
	require.Empty(t, r.next(t))
	e := b.Register(t, func(s *endpoints.Spec) { s.Key = "told" })
	require.Equal(t, []feed.Type{feed.EndpointChanged}, typesOf(r.next(t)))
	for _, tc := range []struct {
		change string
		want   []feed.Type
	}{
		{"Resume", []feed.Type{}}, // There was nothing to end.
		{"ClearHints", []feed.Type{}},
		{"Pause", []feed.Type{feed.EndpointPaused}},
		{"Resume", []feed.Type{feed.EndpointResumed}},
		{"Edit", []feed.Type{feed.EndpointChanged}},
		{"IntervalHint", []feed.Type{feed.HintSet}},
		{"IntervalHint", []feed.Type{feed.HintSet}}, // In place of the first.
		{"OneShotHint", []feed.Type{feed.HintSet}},
		{"ClearHints", []feed.Type{feed.HintCleared, feed.HintCleared}},
		{"ResetFailures", []feed.Type{}},
		{"RunNow", []feed.Type{}},
	} {
		storetest.Changes[tc.change](b.Bundle, t, e.ID)
		require.Equal(t, tc.want, typesOf(r.next(t)), tc.change)
	}
	b.Upsert(t, endpoints.Mode{}, storetest.Wanted("told", nil), storetest.Wanted("fresh", nil))
	storetest.Changes["IntervalHint"](b.Bundle, t, e.ID)
	storetest.Changes["Archive"](b.Bundle, t, e.ID)

	got := r.next(t)

	require.Equal(t, []feed.Type{feed.EndpointChanged, feed.EndpointChanged, feed.HintSet, feed.EndpointChanged, feed.RunFinished}, typesOf(got), "the one-off run that waits is withdrawn")
	require.Equal(t, "registered", got[0].Change.Action)
	require.Equal(t, "edited", got[1].Change.Action)
	require.Equal(t, int64(5000), got[2].Hint.IntervalMs)
	require.Equal(t, storetest.Tenant.Name, got[2].Hint.Author)
	require.Equal(t, "archived", got[3].Change.Action)
	require.EqualValues(t, e.ID, got[3].EndpointID)
	require.Equal(t, storetest.Noon(), got[3].At.UTC())
}

func TestFeedShowsPauseWithEndAndReasonDuringRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	r := b.watch(t, feed.EndpointPaused, feed.RunFinished, feed.RunStarted)
	until := storetest.Noon().Add(time.Hour)
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Until: until, Reason: "lunch"})
	require.NoError(t, err)
	page, err := views.NewFeed(b.DB).Read(t.Context(), r.q)
	require.NoError(t, err)
	require.Len(t, page.Live, 1)
	require.Equal(t, s.RunID, page.Live[0].ID)
	b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s))

	got := r.next(t)

	require.Equal(t, []feed.Type{feed.EndpointPaused, feed.RunFinished}, typesOf(got))
	require.Equal(t, &feed.Change{Version: 1, PausedUntil: &until, Reason: "lunch"}, got[0].Change)
	require.Equal(t, s.RunID, got[1].Run.ID)
}

// A one-shot hint that a run has consumed appears as cleared.
func TestFeedShowsConsumedHintAsCleared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(time.Hour) })
	storetest.Changes["OneShotHint"](b.Bundle, t, e.ID)
	r := b.watch(t, feed.HintCleared)
	b.At(now.Add(5 * time.Second))
	b.RunOne(t, storetest.Worker{1})
	got := r.next(t)
	require.Equal(t, []feed.Type{feed.HintCleared}, typesOf(got))
	require.Equal(t, "one-shot", got[0].Hint.Kind)
}

// A late commit appears late and is never skipped: an open transaction holds back events that
// committed after it began.
func TestFeedNeverInsertsBeforeAReadCursor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.watch(t)
	tx, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	slow := "INSERT INTO events (tenant_id, endpoint_id, at, kind, detail) VALUES ($1, $1, now(), 'endpoint.changed', '{\"version\":1}')"
	_, err = tx.Exec(t.Context(), slow, storetest.Tenant.TenantID)
	require.NoError(t, err)
	e := b.Register(t, nil)
	require.Empty(t, r.pages(t), "the transaction in front is not over")
	require.NoError(t, tx.Commit(t.Context()))

	got := r.next(t)

	require.Len(t, got, 2)
	require.EqualValues(t, storetest.Tenant.TenantID, got[0].EndpointID)
	require.EqualValues(t, e.ID, got[1].EndpointID)
	require.Empty(t, r.next(t), "once")
}

// Pages of any size return the same events once each, and the stream resumes from any event.
func TestFeedGoesOnFromEveryEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	r := b.watch(t)
	start := r.q.After
	for range 4 {
		b.Register(t, nil)
	}
	claimed := b.Claim(t, storetest.Worker{1}, storetest.Horizon)
	started := b.Start(t, storetest.Worker{1}, claimed...)
	byRun := map[[16]byte]int{}
	for i, c := range storetest.StartsOf(claimed) {
		byRun[c.RunID] = i
	}
	for i, s := range started[:3] {
		if i == 0 { // The others finish in one transaction.
			b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, claimed[byRun[s.RunID]], s))
		}
	}
	b.Upsert(t, endpoints.Mode{}, storetest.Wanted("x", nil), storetest.Wanted("y", nil))
	b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, claimed[byRun[started[1].RunID]], started[1]),
		storetest.Succeed(storetest.Worker{1}, claimed[byRun[started[2].RunID]], started[2]), storetest.Succeed(storetest.Worker{1}, claimed[byRun[started[3].RunID]], started[3]))
	all := r.next(t)
	require.Len(t, all, 4+1+2+3)

	for limit := range 5 {
		r.q.After, r.q.Limit = start, limit+1
		require.Equal(t, all, r.next(t), "pages of %d", limit+1)
	}
	for i, e := range all {
		cursor, err := feed.ParseCursor(feed.Cursor{Position: e.Position}.String())
		require.NoError(t, err)
		position := cursor.Position
		require.Equal(t, now.UnixMilli()/1e6, position.At.UnixMilli()/1e6)
		r.q.After, r.q.Limit = position, 2
		require.Equal(t, len(all)-i-1, len(r.next(t)), "after event %d", i)
	}
	r.q.After, r.q.EndpointID = start, all[0].EndpointID
	require.NotEmpty(t, r.next(t))
	r.q.After, r.q.EndpointID, r.q.TenantID = start, [16]byte{}, [16]byte{9}
	require.Empty(t, r.next(t), "another tenant is told nothing")
}

// TestFeedPagesLargeBatch finishes more runs at once than a row of finished_runs holds.
func TestFeedPagesLargeBatch(t *testing.T) {
	t.Parallel()
	const many = 120
	b := setup(t)
	b.At(storetest.Noon())
	var list []endpoints.Upsert
	for i := range many {
		list = append(list, storetest.Wanted(fmt.Sprint("n", i), nil))
	}
	b.Upsert(t, endpoints.Mode{}, list...)
	r := b.watch(t, feed.RunFinished)
	start := r.q.After
	claimed := b.Claim(t, storetest.Worker{1}, storetest.Horizon)
	byRun := map[[16]byte]claims.Claim{}
	for i, s := range storetest.StartsOf(claimed) {
		byRun[s.RunID] = claimed[i]
	}
	var ended []runs.Run
	for _, s := range b.Start(t, storetest.Worker{1}, claimed...) {
		ended = append(ended, storetest.Succeed(storetest.Worker{1}, byRun[s.RunID], s))
	}
	b.Finish(t, storetest.Worker{1}, 0, ended...)
	all := r.next(t)
	require.Len(t, all, many)
	require.Equal(t, 3, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM finished_runs"))

	for _, limit := range []int{7, 49, 50, 51, many, many + 1} {
		r.q.After, r.q.Limit = start, limit
		require.Equal(t, all, r.pages(t), "pages of %d", limit)
	}
	for _, at := range []int{0, 49, 50, 99, many - 1} {
		r.q.After, r.q.Limit = all[at].Position, 10
		require.Equal(t, all[at+1:], append([]feed.Event{}, r.pages(t)...), "after event %d", at)
		r.q.After, r.q.Limit, r.q.EndpointID = start, 1, all[at].EndpointID // Most rows hold nothing of the endpoint.
		require.Equal(t, all[at:at+1], r.pages(t), "of the endpoint of event %d", at)
		r.q.EndpointID = [16]byte{}
	}
}

// TestFeedOmitsSkippedDueTimes: a pause that ends leaves a record in the history, and no run has
// finished.
func TestFeedOmitsSkippedDueTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	r := b.watch(t, feed.RunFinished)
	storetest.Changes["Pause"](b.Bundle, t, e.ID)
	b.At(now.Add(time.Hour))
	storetest.Changes["Resume"](b.Bundle, t, e.ID)
	require.NotEmpty(t, b.Skips(t, e.ID))
	require.Empty(t, r.next(t))
}

func TestPlaceOfAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.watch(t)
	r.q.After.TxID += 1 << 40
	_, err := views.NewFeed(b.DB).Read(t.Context(), r.q)
	require.Equal(t, errs.Malformed, errs.CodeOf(err))
}

func TestOldEventsAreForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon().AddDate(0, 0, -2))
	b.Register(t, nil)
	b.At(storetest.Noon())
	b.Register(t, nil)
	require.EqualValues(t, 2, storetest.Query[int64](t, b.Bundle, "SELECT count(*) FROM events"))
	c := b.ClaimUpTo(t, storetest.Worker{1}, 1, storetest.Horizon)[0]
	b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, b.Start(t, storetest.Worker{1}, c)[0]))
	b.Exec(t, "INSERT INTO finished_runs (tenant_id, at, run_ids, endpoint_ids) SELECT tenant_id, at - interval '25 h', run_ids, endpoint_ids FROM finished_runs")
	_, err := b.Sweeps.KeepHistory(t.Context(), zombie.Retention{Runs: 30 * 24 * time.Hour, Bodies: 24 * time.Hour})
	require.NoError(t, err)
	require.EqualValues(t, 1, storetest.Query[int64](t, b.Bundle, "SELECT count(*) FROM events"))
	require.EqualValues(t, 1, storetest.Query[int64](t, b.Bundle, "SELECT count(*) FROM finished_runs"))
	require.Equal(t, storetest.Noon(), storetest.Query[time.Time](t, b.Bundle, "SELECT at FROM finished_runs").UTC())
}
