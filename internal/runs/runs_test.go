package runs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/errs"
	"rubato/internal/runs"
)

// slots draws due times to the millisecond, in the years that due times may have.
func slots() *rapid.Generator[time.Time] {
	from, to := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	return rapid.Map(rapid.Int64Range(from, to-1), func(ms int64) time.Time { return time.UnixMilli(ms).UTC() })
}

func endpointIDs() *rapid.Generator[[16]byte] {
	return rapid.Map(rapid.SliceOfN(rapid.Byte(), 16, 16), func(b []byte) [16]byte { return [16]byte(b) })
}

func TestAnIDFollowsFromItsRun(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		slot, endpoint, attempt := slots().Draw(rt, "slot"), endpointIDs().Draw(rt, "endpoint"), rapid.IntRange(1, 10).Draw(rt, "attempt")
		id := runs.NewID(slot, endpoint, attempt, 0)
		zone := time.FixedZone("", rapid.IntRange(-12, 14).Draw(rt, "zone")*3600)
		if id != runs.NewID(slot.In(zone).Add(999*time.Microsecond), endpoint, attempt, 0) {
			rt.Fatal("zone or microseconds changed the ID")
		}
		if !id.Slot().Equal(slot) || id.Slot().Location() != time.UTC {
			rt.Fatalf("slot %v became %v", slot, id.Slot())
		}
		if u := uuid.UUID(id); u.Version() != 8 || u.Variant() != uuid.RFC4122 {
			rt.Fatalf("version %v, variant %v", u.Version(), u.Variant())
		}
		parsed, err := runs.ParseID(id.String())
		if err != nil || parsed != id {
			rt.Fatalf("%s became %s, %v", id, parsed, err)
		}
		other := endpoint
		other[rapid.IntRange(0, 15).Draw(rt, "byte")]++
		for _, different := range []runs.ID{runs.NewID(slot, other, attempt, 0), runs.NewID(slot, endpoint, attempt+1, 0), runs.NewID(slot.Add(time.Millisecond), endpoint, attempt, 0)} {
			if different == id {
				rt.Fatal("two runs have one ID")
			}
		}
	})
}

func TestIDsSortByDueTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		times := rapid.SliceOfNDistinct(slots(), 2, 20, func(s time.Time) int64 { return s.UnixMilli() }).Draw(rt, "slots")
		slices.SortFunc(times, time.Time.Compare)
		last := ""
		for _, slot := range times {
			id := runs.NewID(slot, endpointIDs().Draw(rt, "endpoint"), rapid.IntRange(1, 10).Draw(rt, "attempt"), 0)
			if string(id[:]) <= last || id.String() <= "run_" {
				rt.Fatalf("%s does not come after the one before", id)
			}
			last = string(id[:])
		}
	})
}

// TestAnIDNeverChanges pins the format: stored IDs and idempotency keys depend on it.
func TestAnIDNeverChanges(t *testing.T) {
	t.Parallel()
	id := runs.NewID(time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC), [16]byte{1, 2, 3}, 2, 0)
	require.Equal(t, "run_019b7ca9-8f2e-8741-9223-4111b575246f", id.String())
	again := runs.NewID(id.Slot(), [16]byte{1, 2, 3}, 2, 1)
	require.Equal(t, "run_019b7ca9-8f2e-8770-9684-9388cbb24c1e", again.String())
}

func TestATextThatIsNoIDNamesNothing(t *testing.T) {
	t.Parallel()
	good := runs.NewID(time.Now(), [16]byte{1}, 1, 0).String()
	for _, bad := range []string{
		"", "run_", good[4:], "ep_" + good[4:], "RUN_" + good[4:], good + "0", good[:len(good)-1], "run_{" + good[4:] + "}",
		"run_urn:uuid:" + good[4:], "run_" + "zzzzzzzz" + good[12:], " " + good,
		"run_00000000000000000000000000000000",
	} {
		_, err := runs.ParseID(bad)
		require.Equal(t, errs.NotFound, errs.CodeOf(err), "%q", bad)
	}
	for _, bad := range []string{good + "\n", "\xff", good[:10] + "\x00"} {
		_, err := runs.ParseID(bad)
		require.Equal(t, errs.Malformed, errs.CodeOf(err), "%q", bad)
	}
}

func TestARunIsRunningOnceAndThenEnds(t *testing.T) {
	t.Parallel()
	statuses := runs.Statuses()
	require.Len(t, statuses, 7)
	require.Equal(t, runs.Running, statuses[0])
	for _, status := range statuses {
		require.Equal(t, status != runs.Running, status.Terminal(), status)
	}
}

// TestEveryOutcomeHasAMeaning lists what each reason says of the target, and whether another
// attempt may mend it.
func TestEveryOutcomeHasAMeaning(t *testing.T) {
	t.Parallel()
	retryable := map[runs.Reason]bool{
		runs.HTTPStatus: false, // by the code, below
		runs.Timeout:    true, runs.DNSError: true, runs.ConnectError: true, runs.ConnectionLost: true,
		runs.WorkerLost: true, runs.LockLost: true, runs.Shutdown: true, runs.SuccessRuleFailed: true, runs.NotModified: false,
		runs.CallbackFailed: true, runs.NoStatusURL: false,
		runs.TLSError: false, runs.ProtocolError: false, runs.ResponseTooLarge: false, runs.RedirectLimit: false, runs.RedirectDenied: false, runs.EgressDenied: false,
		runs.SecretsUnavailable: false, runs.SigningFailed: false, runs.TemplateFailed: false, runs.AuthFailed: true,
		runs.StartExpired: false, runs.CanceledByUser: false, runs.InternalError: false,
		runs.OverlapSkipped: false, runs.PauseSkipped: false, runs.MisfireSkipped: false, runs.DeadlinePassed: false, runs.CircuitOpen: false, runs.Unroutable: false, runs.Withdrawn: false,
	}
	require.Len(t, runs.Reasons(), len(retryable))
	for _, reason := range runs.Reasons() {
		want, listed := retryable[reason]
		require.True(t, listed, reason)
		require.Equal(t, want, runs.Outcome{Status: runs.Failed, Reason: reason}.Retryable(), reason)
	}
	require.False(t, runs.Outcome{Reason: "unheard of"}.Retryable())

	interrupted := map[runs.Reason]bool{runs.WorkerLost: true, runs.LockLost: true, runs.Shutdown: true, runs.StartExpired: true}
	for _, reason := range runs.Reasons() {
		require.Equal(t, interrupted[reason], runs.Outcome{Status: runs.Lost, Reason: reason}.Interrupted(), reason)
	}

	for code, want := range map[int]bool{200: false, 301: false, 400: false, 404: false, 408: false, 428: false, 429: true, 499: false, 500: true, 503: true, 599: true} {
		require.Equal(t, want, runs.Outcome{Status: runs.Failed, Reason: runs.HTTPStatus, StatusCode: code}.Retryable(), code)
		require.False(t, runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: code}.Retryable(), "a success by its own rule is none to mend")
	}
	for _, status := range runs.Statuses() {
		require.Equal(t, status == runs.Failed || status == runs.TimedOut, runs.Outcome{Status: status}.CountsAsFailure(), status)
	}
}
