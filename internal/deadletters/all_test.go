package deadletters_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/deadletters"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/secrets"
)

// shelf is a store of three open dead letters. A replay of the second one fails.
type shelf struct {
	deadletters.Store

	sealedUnder string
	err         error
}

func (s shelf) List(_ context.Context, f deadletters.Filter) (list []deadletters.Letter, err error) {
	for n := byte(2); n <= 4; n++ {
		l := deadletters.Letter{ID: deadletters.ID{15: n}, Sealed: secrets.Sealed{Data: []byte("{}")}}
		if n == 3 {
			l.Sealed.KeyID = s.sealedUnder
		}
		if l.ID[15] > f.After[15] {
			list = append(list, l)
		}
	}
	return list, nil
}

func (s shelf) Replay(_ context.Context, _ auditlog.Actor, l deadletters.Letter, _ deadletters.Change) error {
	if l.ID[15] == 3 {
		return s.err
	}
	return nil
}

// TestAReplayByFilterStopsIfTheNextWouldBeRefusedToo replays three dead letters. A full queue and a
// database that is away stop it, so that the refused one is tried again. Any other refusal is
// passed.
func TestAReplayByFilterStopsIfTheNextWouldBeRefusedToo(t *testing.T) {
	t.Parallel()
	first := deadletters.ID{15: 2}
	for name, tc := range map[string]struct {
		store    shelf
		replayed int
		refused  int
		next     deadletters.ID
	}{
		"AllReplayed":  {shelf{}, 3, 0, deadletters.ID{}},
		"QueueFull":    {shelf{err: errs.New(errs.Exhausted, "too_many_waiting_runs", "full")}, 1, 1, first},
		"DatabaseAway": {shelf{err: errs.New(errs.Unavailable, "", "away")}, 1, 1, first},
		"KeyMissing":   {shelf{sealedUnder: "gone"}, 2, 1, deadletters.ID{}},
		"Archived":     {shelf{err: errs.New(errs.Conflict, "endpoint_archived", "archived")}, 2, 1, deadletters.ID{}},
		"Handled":      {shelf{err: (&deadletters.Letter{State: deadletters.Discarded}).Handled()}, 2, 0, deadletters.ID{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := deadletters.NewService(tc.store, new(endpoints.Service), nil, nil)
			done, err := service.ReplayAll(t.Context(), auditlog.Actor{}, deadletters.ReplayAll{Filter: deadletters.Filter{Limit: 10}})
			require.NoError(t, err)
			require.Equal(t, tc.replayed, done.Replayed)
			require.Len(t, done.Refused, tc.refused)
			require.Equal(t, tc.next, done.Next)
			require.Equal(t, tc.next != deadletters.ID{}, done.Remaining)
		})
	}
}
