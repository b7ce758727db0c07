package endpoints_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

func doneOf(list []endpoints.Outcome) []endpoints.Done {
	done := make([]endpoints.Done, len(list))
	for i, o := range list {
		done[i] = o.Done
	}
	return done
}

func TestBulkCreateEqualsSingleRegistration(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	out := b.Upsert(t, endpoints.Mode{}, storetest.Wanted("one", func(s *endpoints.Spec) {
		s.Labels, s.Headers = map[string]string{"team": "blue"}, map[string]string{"X-One": "1"}
		s.StartAt, s.Retry.MaxAttempts, s.Idempotent = now.Add(time.Hour), 3, true
		s.Description, s.Body, s.Method, s.Jitter = "d", "b", "POST", time.Second
	}), storetest.Wanted("", func(s *endpoints.Spec) { s.BaselineInterval, s.BaselineCron = 0, "0 9 * * *" }))
	require.Equal(t, []endpoints.Done{endpoints.Created, endpoints.Created}, doneOf(out))
	for _, o := range out {
		got := b.Get(t, o.Endpoint.ID)
		require.Empty(t, got.Spec.Diff(o.Endpoint.Spec))
		require.Equal(t, o.Endpoint.State.Due, got.State.Due)
		last, err := b.Service.Explain(t.Context(), storetest.Tenant, o.Endpoint.ID)
		require.NoError(t, err)
		require.Equal(t, endpoints.CauseRegister, last.Cause)
		require.Equal(t, storetest.Tenant.Name, last.Author)
		require.Equal(t, got.State.Due.At, last.Due.At)
	}
	require.Equal(t, now.Add(time.Hour), b.Get(t, out[0].Endpoint.ID).State.Due.Slot, "without spreading startAt and at-once hold")
	require.EqualValues(t, out[0].Endpoint.ID, b.Claim(t, storetest.Worker{1}, 2*time.Hour)[0].EndpointID, "and workers may claim it")
}

func TestBulkReplacesByKeyAndByIDAndLeavesTheSameAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	keyed := b.Register(t, func(s *endpoints.Spec) { s.Key = "keyed" })
	plain := b.Register(t, nil)
	same := b.Register(t, func(s *endpoints.Spec) { s.Key, s.Name = "same", "bulk" })
	gone := b.Register(t, func(s *endpoints.Spec) { s.Key = "gone" })
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, gone.ID, 0))
	byID := storetest.Wanted("", nil)
	byID.ID = plain.ID
	claimed := b.Claim(t, storetest.Worker{1}, storetest.Horizon)
	require.Len(t, claimed, 3)
	b.At(now.Add(time.Second))

	list := []endpoints.Upsert{storetest.Wanted("keyed", nil), byID, storetest.Wanted("same", nil), storetest.Wanted("gone", nil)}
	dry := b.Upsert(t, endpoints.Mode{DryRun: true}, list...)
	require.Equal(t, []string{"name"}, dry[0].Changes)
	require.Equal(t, int64(1), b.Get(t, keyed.ID).Version, "a dry run writes nothing")
	out := b.Upsert(t, endpoints.Mode{Spread: true}, list...)

	want := []endpoints.Done{endpoints.Updated, endpoints.Updated, endpoints.Unchanged, endpoints.Created}
	require.Equal(t, want, doneOf(dry))
	require.Equal(t, want, doneOf(out))
	require.Equal(t, "bulk", b.Get(t, keyed.ID).Spec.Name)
	require.Equal(t, int64(2), b.Get(t, keyed.ID).Version)
	require.Equal(t, "bulk", b.Get(t, plain.ID).Spec.Name)
	require.Equal(t, int64(1), b.Get(t, same.ID).Version)
	require.NotEqual(t, gone.ID, out[3].Endpoint.ID)
	started := map[[16]byte]bool{}
	for _, s := range b.Start(t, storetest.Worker{1}, claimed...) {
		started[s.RunID] = true
	}
	require.Len(t, started, 1, "an edit revokes the claim, and only an edit")
	last, err := b.Service.Explain(t.Context(), storetest.Tenant, keyed.ID)
	require.NoError(t, err)
	require.Equal(t, endpoints.CauseEdit, last.Cause)
}

// An endpoint of another tenant is not there for an upsert that names its ID.
func TestBulkFindsNothingOfAnotherTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	theirs := storetest.Wanted("", nil)
	theirs.ID = e.ID
	out, err := b.Bulk().Upsert(t.Context(), b.OtherTenant(t), []endpoints.Upsert{theirs}, endpoints.Mode{})
	require.NoError(t, err)
	require.Equal(t, []endpoints.Done{endpoints.Created}, doneOf(out))
	require.NotEqual(t, e.ID, out[0].Endpoint.ID)
	require.Equal(t, "probe", b.Get(t, e.ID).Spec.Name)
}

// Upserts are carried out as if one after the other: a key that one endpoint lets go of is free for
// the next, and not before.
func TestBulkHandsAKeyOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	one := b.Register(t, func(s *endpoints.Spec) { s.Key = "current" })
	two := b.Register(t, func(s *endpoints.Spec) { s.Key = "next" })
	named := func(id endpoints.ID, key string) endpoints.Upsert {
		u := storetest.Wanted(key, nil)
		u.ID = id
		return u
	}

	out := b.Upsert(t, endpoints.Mode{}, named(one.ID, "old"), named(two.ID, "current"))
	require.Equal(t, []endpoints.Done{endpoints.Updated, endpoints.Updated}, doneOf(out), "%v", out[1].Err)
	require.Equal(t, "old", b.Get(t, one.ID).Spec.Key)
	require.Equal(t, "current", b.Get(t, two.ID).Spec.Key)

	out = b.Upsert(t, endpoints.Mode{}, named(two.ID, "old"), named(one.ID, "older"))
	require.Equal(t, []endpoints.Done{endpoints.Failed, endpoints.Updated}, doneOf(out))
	require.ErrorContains(t, out[0].Err, "another endpoint has this key")
}

// TestADryRunHandsKeysOn holds a dry run to what becomes of the same upserts: keys that are handed
// on, taken and let go of, in one batch and over several.
func TestADryRunHandsKeysOn(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{100, 1} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.At(storetest.Noon())
			var ids []endpoints.ID
			for _, key := range []string{"a", "b", "c", "d"} {
				ids = append(ids, b.Register(t, func(s *endpoints.Spec) { s.Key, s.Name = key, "bulk" }).ID)
			}
			named := func(i int, key string) endpoints.Upsert {
				u := storetest.Wanted(key, nil)
				u.ID = ids[i]
				return u
			}
			list := []endpoints.Upsert{
				named(0, "a2"), named(1, "a"), // One gives its key to another,
				storetest.Wanted("b", nil),               // the former key of a2 goes to a new endpoint
				named(2, "b"),                            // so that no other line can take it
				named(3, ""), storetest.Wanted("d", nil), // One has none any more.
				// The endpoint that moved is found by its new key.
				storetest.Wanted("a2", func(s *endpoints.Spec) { s.Name = "renamed" }),
				named(1, "a3"), named(1, "a"), named(2, "a3"), // There and back again.
				named(0, "a"), // Taken.
			}
			carry := func(mode endpoints.Mode) (done []endpoints.Outcome) {
				for part := range slices.Chunk(list, batch) {
					done = append(done, b.Upsert(t, mode, part...)...)
				}
				return done
			}

			foreseen := carry(endpoints.Mode{DryRun: true, DryRunKeys: endpoints.NewDryRunKeys()})
			done := carry(endpoints.Mode{})

			for i := range list {
				require.Equal(t, done[i].Done, foreseen[i].Done, "line %d: %v, %v", i+1, done[i].Err, foreseen[i].Err)
				require.Equal(t, done[i].Err == nil, foreseen[i].Err == nil, "line %d", i+1)
				require.Equal(t, done[i].Changes, foreseen[i].Changes, "line %d", i+1)
			}
		})
	}
}

func TestBulkEditOfALiveEndpointWaitsForItsFinish(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.Key = "live" })
	c, s := b.StartOne(t, storetest.Worker{1})

	out := b.Upsert(t, endpoints.Mode{}, storetest.Wanted("live", func(s *endpoints.Spec) { s.BaselineInterval = time.Hour }))

	require.Equal(t, endpoints.Updated, out[0].Done)
	require.Empty(t, b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s)).Late, "the live run keeps its claim")
	got := b.Get(t, e.ID)
	require.Equal(t, int64(2), got.Version)
	require.Equal(t, c.Slot.Add(time.Hour), got.State.Due.At, "and its finish plans by the new interval")
}

func TestBulkSpreadsFirstRunsOverTheInterval(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	var list []endpoints.Upsert
	for n := range 600 {
		list = append(list, storetest.Wanted(fmt.Sprintf("key-%d", n), nil))
	}
	cron := storetest.Wanted("cron", func(s *endpoints.Spec) { s.BaselineInterval, s.BaselineCron = 0, "*/5 * * * *" })
	at := storetest.Wanted("at", func(s *endpoints.Spec) { s.StartAt = now.Add(time.Hour) })
	out := b.Upsert(t, endpoints.Mode{Spread: true}, append(list, cron, at)...)

	perTenth := map[int]int{}
	for _, o := range out[:600] {
		due := b.Get(t, o.Endpoint.ID).State.Due.At
		require.True(t, due.After(now) && !due.After(now.Add(time.Minute)), "%s", due)
		perTenth[int(due.Sub(now)/(6*time.Second+1))]++
	}
	for tenth := range 10 {
		require.Greater(t, perTenth[tenth], 30, "the first runs of 600 endpoints over a minute: %v", perTenth)
	}
	require.Equal(t, now.Add(5*time.Minute), out[600].Endpoint.State.Due.At, "a cron keeps its grid")
	require.Equal(t, now.Add(time.Hour), out[601].Endpoint.State.Due.At, "and so does a startAt")
	phase := out[0].Endpoint.State.Due.At
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, out[0].Endpoint.ID, 0))
	b.At(now.Add(10 * time.Minute))
	again := b.Upsert(t, endpoints.Mode{Spread: true}, list[0])
	require.Equal(t, phase.Add(10*time.Minute), again[0].Endpoint.State.Due.At, "the phase follows from the key")
}

// A line that the store refuses fails alone, even if only the database detects the fault. Lines
// about the same endpoint are applied in order.
func TestBulkFailsAloneAndActsInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	taken := b.Register(t, func(s *endpoints.Spec) { s.Key = "taken" })
	mover := b.Register(t, func(s *endpoints.Spec) { s.Key = "mover" })
	rename := storetest.Wanted("taken", nil)
	rename.ID = mover.ID
	invalid := storetest.Wanted("invalid", func(s *endpoints.Spec) { s.Timeout = 2 * time.Minute })
	refused := endpoints.Upsert{Want: func(*endpoints.Endpoint) (endpoints.Spec, error) {
		return endpoints.Spec{}, errs.New(errs.Malformed, "no", "no")
	}}
	out := b.Upsert(t, endpoints.Mode{},
		storetest.Wanted("a", nil), invalid, refused, rename, storetest.Wanted("twice", nil), storetest.Wanted("twice", func(s *endpoints.Spec) { s.Name = "second" }), storetest.Wanted("twice", nil), storetest.Wanted("z", nil))

	require.Equal(t, []endpoints.Done{
		endpoints.Created, endpoints.Failed, endpoints.Failed, endpoints.Failed, endpoints.Created, endpoints.Updated, endpoints.Updated, endpoints.Created,
	}, doneOf(out))
	require.Equal(t, errs.Invalid, errs.CodeOf(out[1].Err))
	require.Equal(t, errs.Conflict, errs.CodeOf(out[3].Err))
	require.Equal(t, "mover", b.Get(t, mover.ID).Spec.Key)
	require.Equal(t, "taken", b.Get(t, taken.ID).Spec.Key)
	require.Equal(t, int64(3), b.Get(t, out[4].Endpoint.ID).Version)
}

// Two imports of the same keys, in opposite orders and at the same time, leave one endpoint of
// each.
func TestBulksOfTheSameKeysMeet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const keys = 200
	var forth, back []endpoints.Upsert
	for n := range keys {
		forth = append(forth, storetest.Wanted(fmt.Sprintf("k%d", n), nil))
		back = append(back, storetest.Wanted(fmt.Sprintf("k%d", keys-1-n), nil))
	}
	var group sync.WaitGroup
	counts := make([]map[endpoints.Done]int, 4)
	for n := range counts {
		group.Go(func() {
			list := [][]endpoints.Upsert{forth, back}[n%2]
			out, err := b.Bulk().Upsert(t.Context(), storetest.Tenant, list, endpoints.Mode{})
			counts[n] = map[endpoints.Done]int{}
			for _, o := range out {
				counts[n][o.Done]++
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	created := 0
	for _, c := range counts {
		require.Equal(t, keys, c[endpoints.Created]+c[endpoints.Unchanged], "%v", c)
		created += c[endpoints.Created]
	}
	require.Equal(t, keys, created)
	require.EqualValues(t, keys, storetest.Query[int64](t, b.Bundle, "SELECT count(*) FROM endpoints"))
	require.EqualValues(t, keys, storetest.Query[int64](t, b.Bundle, "SELECT count(*) FROM schedules"))
	require.EqualValues(t, keys, storetest.Query[int64](t, b.Bundle, "SELECT count(*) FROM decisions"))
}

// TestBulksTakeKeysInOrder stops a batch at the second of the keys that it takes, which a stranger
// is about to take. The stranger can take the third, for the batch has not; had it, each would wait
// for the other.
func TestBulksTakeKeysInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var list []endpoints.Upsert
	for _, key := range []string{"k3", "k2", "k1", "", ""} {
		u := storetest.Wanted(key, nil)
		u.ID = b.Register(t, func(s *endpoints.Spec) { s.Key = "old-" + strconv.Itoa(len(list)) }).ID
		list = append(list, u)
	}
	stranger := b.Register(t, nil).ID
	tx := b.Hold(t, `UPDATE endpoints SET spec = spec || '{"key": "k2"}' WHERE id = $1`, stranger)
	moved := make(chan []endpoints.Outcome, 1)
	go func() {
		out, err := b.Bulk().Upsert(context.WithoutCancel(t.Context()), storetest.Tenant, list, endpoints.Mode{})
		if err != nil {
			t.Error(err)
		}
		moved <- out
	}()
	b.AwaitLockWait(t)
	_, err := tx.Exec(t.Context(), `UPDATE endpoints SET spec = spec || '{"key": "k3"}' WHERE id = $1`, stranger)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))

	for i, o := range <-moved {
		require.Equal(t, endpoints.Updated, o.Done, "%v", o.Err)
		require.Equal(t, list[i].Key, b.Get(t, list[i].ID).Spec.Key)
	}
}

// A creation does not wait for starts in flight; an edit does.
func TestOnlyBulkEditsKeepStartsOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.Register(t, func(s *endpoints.Spec) { s.Key = "old" })
	tx := b.InFlight(t, old.ID)

	require.Equal(t, endpoints.Created, b.Upsert(t, endpoints.Mode{}, storetest.Wanted("new", nil))[0].Done)
	ended := make(chan endpoints.Done, 1)
	go func() {
		out, err := b.Bulk().Upsert(t.Context(), storetest.Tenant, []endpoints.Upsert{storetest.Wanted("old", nil)}, endpoints.Mode{})
		if err != nil {
			t.Error(err)
		}
		ended <- out[0].Done
	}()
	b.AwaitRowWaits(t, 1)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, endpoints.Updated, <-ended)
}

// TestBulkIsLoggedAsSingleChangesAre registers and edits two endpoints each way: apart from the
// identities the entries are the same.
func TestBulkIsLoggedAsSingleChangesAre(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	edit := func(s *endpoints.Spec) { s.Name, s.Headers = "renamed", map[string]string{"Authorization": "canary"} }
	first := storetest.Wanted("", nil)
	spec, err := first.Want(nil)
	require.NoError(t, err)
	single := b.Register(t, func(s *endpoints.Spec) { *s = spec })
	out := b.Upsert(t, endpoints.Mode{}, storetest.Wanted("", nil), storetest.Wanted("", nil))
	b.At(now.Add(time.Second))
	b.Edit(t, single.ID, edit)
	outside := storetest.Logged(t, b.Bundle, func(f *auditlog.Filter) { f.ObjectID = single.ID.String() })
	var edits []endpoints.Upsert
	for _, o := range out {
		u := storetest.Wanted("", edit)
		u.ID = o.Endpoint.ID
		edits = append(edits, u)
	}
	b.Upsert(t, endpoints.Mode{}, edits...)
	b.Upsert(t, endpoints.Mode{}, edits...)

	for _, o := range out {
		list := storetest.Logged(t, b.Bundle, func(f *auditlog.Filter) { f.ObjectID = o.Endpoint.ID.String() })
		require.Len(t, list, 2, "what changes nothing is not logged")
		for i, entry := range list {
			require.Equal(t, o.Endpoint.Object(), entry.Object)
			entry.ID, entry.Object = outside[i].ID, outside[i].Object
			require.Equal(t, outside[i], entry)
		}
		require.NotContains(t, string(list[0].After), "canary")
	}
}

// TestBulkEditRecordsSkippedDueTimes edits endpoints with forty days of missed due times, on a day
// without a partition of the history.
func TestBulkEditRecordsSkippedDueTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	idle := b.Register(t, func(s *endpoints.Spec) { s.Key = "idle" })
	live := b.Register(t, func(s *endpoints.Spec) { s.Key = "live" })
	b.Start(t, storetest.Worker{1}, b.Claim(t, storetest.Worker{1}, storetest.Horizon)[:2]...)
	b.Exec(t, storetest.EndRun+" WHERE endpoint_id = $1", [16]byte(idle.ID))
	late := b.At(now.AddDate(0, 0, 40).Add(time.Second))
	hourly := func(s *endpoints.Spec) { s.BaselineInterval = time.Hour }

	b.Upsert(t, endpoints.Mode{}, storetest.Wanted("idle", hourly), storetest.Wanted("live", hourly))

	require.Equal(t, []runs.Run{storetest.Record(idle, runs.MisfireSkipped, now, late.Add(-61*time.Second), late, 40*24*60)}, b.Skips(t, idle.ID),
		"the run at once stands for the last one")
	require.Equal(t, []runs.Run{storetest.Record(live, runs.OverlapSkipped, now.Add(time.Minute), late.Add(-time.Second), late, 40*24*60)}, b.Skips(t, live.ID))
	require.Equal(t, late, b.Get(t, live.ID).State.AccountedUntil)
	require.Equal(t, late.Add(-time.Millisecond), b.Get(t, idle.ID).State.AccountedUntil, "the run at once is accounted for when it ends")
}

// TestBulkEditDropsRetryAfterOfOldTarget moves endpoints with a Retry-After to another host, one of
// them during a run, beside one that stays.
func TestBulkEditDropsRetryAfterOfOldTarget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	wait := now.Add(time.Hour)
	for _, key := range []string{"live", "waits", "stays"} {
		b.Register(t, func(s *endpoints.Spec) { s.Key = key })
	}
	b.Start(t, storetest.Worker{1}, b.Claim(t, storetest.Worker{1}, storetest.Horizon)...)
	b.Exec(t, storetest.EndRun+" FROM endpoints e WHERE e.id = endpoint_id AND e.key <> 'live'")
	b.Exec(t, "UPDATE schedules SET retry_after = $1", wait)
	elsewhere := func(s *endpoints.Spec) { s.URL = "http://elsewhere.example/" }

	done := b.Upsert(t, endpoints.Mode{}, storetest.Wanted("live", elsewhere), storetest.Wanted("waits", elsewhere), storetest.Wanted("stays", func(s *endpoints.Spec) { s.Name = "renamed" }))

	require.Equal(t, []endpoints.Done{endpoints.Updated, endpoints.Updated, endpoints.Updated}, doneOf(done))
	for i, want := range []time.Time{{}, {}, wait} {
		require.Equal(t, want, b.Get(t, done[i].Endpoint.ID).State.RetryAfter, done[i].Endpoint.Spec.Key)
	}
	require.Equal(t, now, b.Get(t, done[1].Endpoint.ID).State.Due.At)
	require.Equal(t, wait, b.Get(t, done[2].Endpoint.ID).State.Due.At)
}

// TestABulkEditStoresTheStateThatASingleEditStores makes the same edits to two endpoints with the
// same runs, one by a bulk.
func TestABulkEditStoresTheStateThatASingleEditStores(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*endpoints.Spec){
		"NoRunLimit":     func(s *endpoints.Spec) { s.MaxRuns = 0 },
		"LowerRunLimit":  func(s *endpoints.Spec) { s.MaxRuns = 1 },
		"HigherRunLimit": func(s *endpoints.Spec) { s.MaxRuns = 9 },
		"FewerAttempts":  func(s *endpoints.Spec) { s.Retry.MaxAttempts = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, me := setup(t), storetest.Worker{1}
			now := b.At(storetest.Noon())
			for _, key := range []string{"alone", "bulk"} {
				b.Register(t, func(s *endpoints.Spec) {
					s.Key, s.MaxRuns, s.Retry.MaxAttempts, s.Retry.Backoff = key, 4, 3, time.Millisecond
				})
			}
			run := func(outcome func(storetest.Worker, claims.Claim, dispatch.Started) runs.Run) {
				for _, c := range b.Claim(t, me, storetest.Horizon) {
					b.Finish(t, me, 0, outcome(me, c, b.Start(t, me, c)[0]))
				}
			}
			for range 2 {
				run(storetest.Succeed)
				now = b.At(now.Add(time.Minute))
			}
			run(storetest.Fail) // Another attempt waits.

			alone, bulk := b.byKey(t, "alone"), b.byKey(t, "bulk")
			b.At(now.Add(time.Millisecond)) // A change at the due time of the last run would count as a millisecond later.
			b.Edit(t, alone.ID, edit)
			spec := bulk.Spec
			edit(&spec)
			done := b.Upsert(t, endpoints.Mode{}, endpoints.Upsert{Key: "bulk", Want: func(*endpoints.Endpoint) (endpoints.Spec, error) { return spec, nil }})

			require.Equal(t, []endpoints.Done{endpoints.Updated}, doneOf(done))
			got, want := b.Get(t, bulk.ID).State, b.Get(t, alone.ID).State
			require.WithinDuration(t, want.Due.At, got.Due.At, time.Second)
			got.Due.At = want.Due.At // The jitter of an attempt depends on the ID.
			require.Equal(t, want, got)
			require.NotEqual(t, b.Get(t, bulk.ID).Version, bulk.Version)
		})
	}
}

func (b *bundle) byKey(t *testing.T, key string) *endpoints.Endpoint {
	t.Helper()
	return b.Get(t, storetest.Query[[16]byte](t, b.Bundle, "SELECT id FROM endpoints WHERE key = $1", key))
}

// TestABulkEditWaitsForAFinishInFlight holds the finish of a run just before its commit: an edit
// that did not wait for it would take the run for live, and leave its plan to a finish that has
// made it already.
func TestABulkEditWaitsForAFinishInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, func(s *endpoints.Spec) { s.Key = "busy" })
	b.StartOne(t, storetest.Worker{1})
	tx, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), storetest.EndRun+", claimed_by = NULL, claimed_at = NULL, due_at = planned_at")
	require.NoError(t, err)
	hourly := func(s *endpoints.Spec) { s.BaselineInterval = time.Hour }
	edited := make(chan error, 1)
	go func() {
		_, err := b.Bulk().Upsert(context.WithoutCancel(t.Context()), storetest.Tenant, []endpoints.Upsert{storetest.Wanted("busy", hourly)}, endpoints.Mode{})
		edited <- err
	}()
	b.AwaitLockWait(t)
	require.NoError(t, tx.Commit(t.Context()))

	require.NoError(t, <-edited)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM decisions WHERE endpoint_id = $1 AND cause = 'edit'", [16]byte(e.ID)),
		"the edit plans, for no finish will")
}

// TestADryRunNamesUnknownSecrets: a dry run reports each unknown secret that an import would
// refuse, with the name of the field.
func TestADryRunNamesUnknownSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "known", storetest.Canary)
	with := func(key, secret string) endpoints.Upsert {
		return storetest.Wanted(key, func(s *endpoints.Spec) { s.Headers = map[string]string{"X-Token": `{{secret "` + secret + `"}}`} })
	}
	list := []endpoints.Upsert{with("a", "known"), with("b", "missing"), storetest.Wanted("c", nil), with("d", "gone")}

	foreseen, done := b.Upsert(t, endpoints.Mode{DryRun: true}, list...), b.Upsert(t, endpoints.Mode{}, list...)

	for i := range list {
		require.Equal(t, done[i].Done, foreseen[i].Done, "line %d", i+1)
		require.Equal(t, done[i].Err, foreseen[i].Err, "line %d", i+1)
	}
	require.ErrorContains(t, foreseen[1].Err, "secret")
	unknown := errs.FieldsOf(foreseen[3].Err)
	require.Len(t, unknown, 1)
	require.Equal(t, "headers.X-Token", unknown[0].Field)
	require.Contains(t, unknown[0].Message, `"gone"`)
}
