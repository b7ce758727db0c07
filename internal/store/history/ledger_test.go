package history_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/store/history"
	"rubato/internal/store/storetest"
)

// entry is a decision as the ledger holds it.
type entry struct {
	Cause, Author string
	Version       int64
	NextRunAt     time.Time
	Steps         []governor.Step
	Input         map[string]any
}

func (b *bundle) newest(t *testing.T, id endpoints.ID) entry {
	t.Helper()
	var e entry
	var steps, input []byte
	err := b.Pool.QueryRow(t.Context(), `SELECT cause, author, version, next_run_at, next_steps, input FROM decisions
		WHERE endpoint_id = $1 ORDER BY id DESC LIMIT 1`, [16]byte(id)).Scan(&e.Cause, &e.Author, &e.Version, &e.NextRunAt, &steps, &input)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(steps, &e.Steps))
	require.NoError(t, json.Unmarshal(input, &e.Input))
	return e
}

// TestBasisKeepsOneOffItems stores and reads a state with items that have each stored field.
func TestBasisKeepsOneOffItems(t *testing.T) {
	t.Parallel()
	noon := storetest.Noon()
	item := endpoints.OneOff{
		Slot:         noon,
		At:           noon.Add(time.Second),
		Attempt:      2,
		InfraAttempt: 1,
		Priority:     2,
		Deadline:     noon.Add(time.Hour),
		Undo:         true,
	}
	from := endpoints.State{OneOffs: endpoints.OneOffs{Next: &item, InFlight: &item, Waiting: 1, LastSlot: noon}}
	read, err := history.DecodeBasis(history.ChangeBasis(&endpoints.Recorded{From: &from}))
	require.NoError(t, err)
	require.Equal(t, from.OneOffs, read.State.OneOffs)
}

// TestEveryReplanIsInTheLedger makes every change once and reads the recorded decision.
func TestEveryReplanIsInTheLedger(t *testing.T) {
	t.Parallel()
	causes := map[string]string{
		"Pause": "pause", "Resume": "resume", "Edit": "edit", "IntervalHint": "hint", "OneShotHint": "hint", "ClearHints": "hint",
		"ResetFailures": "reset_failures", "RunNow": "run_now",
	}
	for name, cause := range causes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			now := b.At(storetest.Noon())
			e := b.Register(t, nil)
			registered := b.newest(t, e.ID)
			require.Equal(t, "register", registered.Cause)
			require.Equal(t, "tester", registered.Author)
			b.RunOne(t, storetest.Worker{1})
			b.At(now.Add(time.Second))

			storetest.Changes[name](b.Bundle, t, e.ID)
			last := b.newest(t, e.ID)
			state := b.Get(t, e.ID)
			require.Equal(t, cause, last.Cause)
			require.Equal(t, "tester", last.Author)
			require.Equal(t, state.Version, last.Version)
			require.Equal(t, state.State.Due.At, last.NextRunAt.UTC())
			require.Equal(t, state.State.Due.At, last.Steps[len(last.Steps)-1].At.UTC())
			require.Equal(t, now.Add(time.Second).Format(time.RFC3339), last.Input["now"])
			require.Equal(t, now.Format(time.RFC3339), last.Input["anchor"])
			switch name {
			case "Pause":
				require.Equal(t, governor.Indefinite.Format(time.RFC3339), last.Input["pausedUntil"])
			case "IntervalHint":
				require.InDelta(t, 5000, last.Input["hints"].(map[string]any)["interval"].(map[string]any)["intervalMs"], 0)
			case "OneShotHint":
				require.Contains(t, last.Input["hints"], "oneShot")
			default:
				require.NotContains(t, last.Input, "hints")
			}

			explained, err := b.Service.Explain(t.Context(), storetest.Tenant, e.ID)
			require.NoError(t, err)
			require.Equal(t, endpoints.Cause(cause), explained.Cause)
			require.Equal(t, state.State.Due.At, explained.Due.At)
			require.Len(t, explained.Decision.Steps, len(last.Steps))
		})
	}
}

// TestNothingIsInForceOnceArchived has a run planned when its endpoint is archived, and one live.
func TestNothingIsInForceOnceArchived(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]bool{"Planned": false, "Live": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			now := b.At(storetest.Noon())
			e := b.Register(t, nil)
			if live {
				b.StartOne(t, storetest.Worker{1})
				now = b.At(now.Add(time.Second))
			}
			require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))

			explained, err := b.Service.Explain(t.Context(), storetest.Tenant, e.ID)
			require.NoError(t, err)
			require.Equal(t, endpoints.CauseArchive, explained.Cause)
			require.Equal(t, now, explained.At)
			require.Equal(t, governor.Indefinite, explained.Due.At)
			require.Equal(t, int64(2), explained.Version)
			require.Equal(t, "archived: it never runs again", explained.Decision.Steps[0].Why)
		})
	}
}

// TestExplainReturnsTheDecisionInForce alternates between finishes and changes.
func TestExplainReturnsTheDecisionInForce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	inForce := func(cause endpoints.Cause) {
		t.Helper()
		explained, err := b.Service.Explain(t.Context(), storetest.Tenant, e.ID)
		require.NoError(t, err)
		require.Equal(t, cause, explained.Cause)
		require.Equal(t, b.Get(t, e.ID).State.Due.At, explained.Due.At)
		require.NotEmpty(t, explained.Decision.Steps)
		require.Equal(t, explained.Due.At, explained.Decision.Steps[len(explained.Decision.Steps)-1].At)
	}
	inForce("register")
	b.RunOne(t, storetest.Worker{1})
	inForce("finish")
	b.At(now.Add(10 * time.Second))
	storetest.Changes["IntervalHint"](b.Bundle, t, e.ID)
	inForce("hint")
	b.RunOne(t, storetest.Worker{1})
	inForce("finish")
	b.At(now.Add(20 * time.Second))
	storetest.Changes["Pause"](b.Bundle, t, e.ID)
	inForce("pause")
}

// TestAHintLeavesItsStory replaces a hint and clears it.
func TestAHintLeavesItsStory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, nil)
	storetest.Changes["IntervalHint"](b.Bundle, t, e.ID)
	storetest.Changes["OneShotHint"](b.Bundle, t, e.ID)
	first := b.Get(t, e.ID).State
	require.Equal(t, 5*time.Second, first.IntervalHint.Interval)
	require.Equal(t, "tester", first.IntervalHint.Author)
	require.Equal(t, storetest.Noon().Add(time.Hour), first.IntervalHint.ExpiresAt)
	require.Equal(t, storetest.Noon().Add(5*time.Second), first.OneShotHint.At)
	storetest.Changes["IntervalHint"](b.Bundle, t, e.ID)
	require.Equal(t, first.OneShotHint, b.Get(t, e.ID).State.OneShotHint, "writing one hint leaves the other alone")
	require.Equal(t, 3, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints"))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints WHERE ended_at IS NOT NULL"))
	storetest.Changes["ClearHints"](b.Bundle, t, e.ID)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints WHERE ended_at IS NULL"))
	require.Nil(t, b.Get(t, e.ID).State.IntervalHint)
}
