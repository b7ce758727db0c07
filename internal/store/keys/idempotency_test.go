package keys_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/idempotency"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
)

func attempt(token byte) idempotency.Attempt {
	return idempotency.Attempt{
		Key:   idempotency.Key{TenantID: keystore.DefaultTenant, Route: "POST /v1/endpoints", Hash: [32]byte{1}},
		Token: [16]byte{token}, Fingerprint: [32]byte{2},
	}
}

func reserve(t *testing.T, s *keystore.Idempotency, a idempotency.Attempt) (idempotency.State, idempotency.Answer) {
	t.Helper()
	state, answer, err := s.Reserve(t.Context(), a)
	require.NoError(t, err)
	return state, answer
}

// carryOut registers an endpoint as the request of an attempt.
func carryOut(t *testing.T, b *bundle, a idempotency.Attempt) error {
	t.Helper()
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "once", "http://target.example/", time.Minute
	_, _, err := b.Service.Register(idempotency.With(t.Context(), a), storetest.Tenant, spec)
	return err
}

func TestAnAnswerIsKeptAndGivenAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := keystore.NewIdempotency(b.DB)
	state, _ := reserve(t, s, attempt(1))
	require.Equal(t, idempotency.Reserved, state)
	require.NoError(t, carryOut(t, b, attempt(1)))
	given := idempotency.Answer{Status: 201, Header: map[string]string{"ETag": `"1"`}, Body: []byte(`{"a":1}`), Sealed: true}
	require.NoError(t, s.Complete(t.Context(), attempt(1), given))

	state, answer := reserve(t, s, attempt(2))
	require.Equal(t, idempotency.Answered, state)
	require.Equal(t, given, answer)
	other := attempt(3)
	other.Fingerprint = [32]byte{9}
	state, _ = reserve(t, s, other)
	require.Equal(t, idempotency.Other, state)
	elsewhere := attempt(3)
	elsewhere.Route = "POST /v1/keys"
	state, _ = reserve(t, s, elsewhere)
	require.Equal(t, idempotency.Reserved, state, "a key belongs to a route")

	b.Exec(t, "UPDATE idempotency_keys SET expires_at = now()")
	swept, err := s.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, swept)
	state, _ = reserve(t, s, attempt(4))
	require.Equal(t, idempotency.Reserved, state, "after a day the key is a new one")
}

// A process dies after its transaction and before it has kept the answer, or before both.
func TestACrashDoesNotMakeARequestHappenTwice(t *testing.T) {
	t.Parallel()
	t.Run("AfterTheTransaction", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		s := keystore.NewIdempotency(b.DB)
		reserve(t, s, attempt(1))
		require.NoError(t, carryOut(t, b, attempt(1)))
		state, _ := reserve(t, s, attempt(2))
		require.Equal(t, idempotency.Busy, state, "it may still be about to answer")
		b.Exec(t, "UPDATE idempotency_keys SET locked_until = now()")
		state, _ = reserve(t, s, attempt(2))
		require.Equal(t, idempotency.Unknown, state)
	})
	t.Run("BeforeTheTransaction", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		s := keystore.NewIdempotency(b.DB)
		reserve(t, s, attempt(1))
		b.Exec(t, "UPDATE idempotency_keys SET locked_until = now()")
		state, _ := reserve(t, s, attempt(2))
		require.Equal(t, idempotency.Reserved, state)
		err := carryOut(t, b, attempt(1))
		require.Equal(t, errs.Conflict, errs.CodeOf(err), "the first attempt wakes up and changes nothing")
		require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM endpoints"))
		require.NoError(t, carryOut(t, b, attempt(2)))
		require.Error(t, s.Complete(t.Context(), attempt(1), idempotency.Answer{Status: 201}))
	})
	t.Run("WithAnUnknownOutcome", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		s := keystore.NewIdempotency(b.DB)
		reserve(t, s, attempt(1))
		require.NoError(t, carryOut(t, b, attempt(1)))
		require.NoError(t, s.Release(t.Context(), attempt(1), false), "the commit's answer was lost")
		state, _ := reserve(t, s, attempt(2))
		require.Equal(t, idempotency.Unknown, state)
		require.NoError(t, s.Release(t.Context(), attempt(1), true))
		state, _ = reserve(t, s, attempt(2))
		require.Equal(t, idempotency.Unknown, state, "what was carried out is never free again")
	})
}

func TestARefusedRequestLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := keystore.NewIdempotency(b.DB)
	reserve(t, s, attempt(1))
	require.NoError(t, s.Release(t.Context(), attempt(1), true))
	changed := attempt(2)
	changed.Fingerprint = [32]byte{9}
	state, _ := reserve(t, s, changed)
	require.Equal(t, idempotency.Reserved, state)
}

func TestOneOfManyAttemptsAtOnceIsCarriedOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := keystore.NewIdempotency(b.DB)
	var reserved atomic.Int32
	var all sync.WaitGroup
	faults := make(chan error, 20)
	for i := range 20 {
		all.Go(func() {
			state, _, err := s.Reserve(t.Context(), attempt(byte(i+1)))
			if state == idempotency.Reserved {
				reserved.Add(1)
			} else if state != idempotency.Busy {
				err = errors.New("neither reserved nor busy")
			}
			faults <- err
		})
	}
	all.Wait()
	close(faults)
	for err := range faults {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, reserved.Load())
}
