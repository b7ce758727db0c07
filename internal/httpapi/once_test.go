package httpapi_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
)

func once(key string) request { return withHeader("Idempotency-Key", key) }

func TestRepeatedRequestIsAnsweredAndExecutedOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.call("POST", "/v1/endpoints", minimal, once("k1"))
	require.Equal(t, http.StatusCreated, first.status)
	require.Empty(t, first.header.Get("Idempotency-Replayed"))
	again := s.call("POST", "/v1/endpoints", minimal, once("k1"))
	require.Equal(t, http.StatusCreated, again.status)
	require.Equal(t, string(first.body), string(again.body))
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	for _, name := range []string{"ETag", "Location", "Content-Type"} {
		require.Equal(t, first.header.Get(name), again.header.Get(name), name)
	}
	require.NotEqual(t, first.header.Get("X-Request-Id"), again.header.Get("X-Request-Id"))
	require.Len(t, s.store.endpoints, 1)

	other := s.call("POST", "/v1/endpoints", strings.Replace(minimal, "p", "q", 1), once("k1"))
	require.Equal(t, http.StatusUnprocessableEntity, other.status)
	require.Equal(t, "idempotency_conflict", other.problem().Code)
	require.Equal(t, http.StatusCreated, s.call("POST", "/v1/endpoints", minimal, once("k2")).status)
	require.Equal(t, http.StatusCreated, s.call("POST", "/v1/endpoints", minimal, once("k1"), withKey(otherKey)).status, "a key belongs to a tenant")
	require.Len(t, s.store.endpoints, 3)
}

func TestIdempotencyKeyIsScopedToThePath(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.register(minimal), s.register(minimal)
	s.call("POST", "/v1/endpoints/"+one+"/pause", "", once("k")).is(http.StatusOK)
	require.Equal(t, "idempotency_conflict", s.call("POST", "/v1/endpoints/"+two+"/pause", "", once("k")).problem().Code)
	s.call("POST", "/v1/endpoints/"+one+"/resume", "", once("k")).is(http.StatusOK)
}

func TestRefusalIsNotStoredUnderAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.call("POST", "/v1/endpoints", `{"name":"p"}`, once("k")).is(http.StatusUnprocessableEntity)
	s.call("POST", "/v1/endpoints", `{`, once("k")).is(http.StatusBadRequest)
	s.call("POST", "/v1/endpoints", minimal, once("k")).is(http.StatusCreated)
}

func TestFailureWithUnknownEffectIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.store.err = errs.Wrap(errors.New("lost"), errs.Unavailable, "try again")
	s.call("POST", "/v1/endpoints", minimal, once("k")).is(http.StatusServiceUnavailable)
	s.store.err = nil
	require.Equal(t, "idempotency_unknown", s.call("POST", "/v1/endpoints", minimal, once("k")).problem().Code)

	s.store.endpoints = nil // Writing to a nil map panics.
	s.call("POST", "/v1/endpoints", minimal, once("p")).is(http.StatusInternalServerError)
	require.Equal(t, "idempotency_unknown", s.call("POST", "/v1/endpoints", minimal, once("p")).problem().Code)
}

func TestConcurrentRepetitionIsRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.once.deaf = true
	s.call("POST", "/v1/endpoints", minimal, once("k")).is(http.StatusCreated)
	a := s.call("POST", "/v1/endpoints", minimal, once("k"))
	require.Equal(t, http.StatusConflict, a.status)
	require.Equal(t, "idempotency_in_progress", a.problem().Code)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Len(t, s.store.endpoints, 1)
}

func TestBadIdempotencyKeys(t *testing.T) {
	t.Parallel()
	s := newService(t)
	twice := func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} }
	for name, change := range map[string]request{
		"Empty": once(""), "Blank": once("a b"), "Long": once(strings.Repeat("x", 256)), "NotASCII": once("é"), "Twice": twice,
	} {
		want := "Idempotency-Key invalid_value"
		if name == "Twice" {
			want = "Idempotency-Key duplicate_parameter"
		}
		a := s.call("POST", "/v1/endpoints", minimal, change)
		require.Equal(t, []string{want}, a.complaints(), name)
	}
	require.Empty(t, s.store.endpoints)
	s.call("GET", "/v1/endpoints", "", once("")).is(http.StatusOK)
}

func TestASecretIsKeptSealed(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const body = `{"name":"k","scopes":["read"]}`
	first := s.call("POST", "/v1/keys", body, once("k"), withKey(adminKey))
	secret, _ := first.is(http.StatusCreated)["secret"].(string)
	require.NotEmpty(t, secret)
	for _, kept := range s.once.kept {
		require.True(t, kept.Sealed)
		require.False(t, bytes.Contains(kept.Body, []byte(secret)))
	}
	again := s.call("POST", "/v1/keys", body, once("k"), withKey(adminKey))
	require.Equal(t, string(first.body), string(again.body))
	require.Len(t, s.store.keys, 1)

	for key, kept := range s.once.kept { // As if another key had asked.
		kept.Body[len(kept.Body)-1] ^= 1
		s.once.kept[key] = kept
	}
	require.Equal(t, "idempotency_unknown", s.call("POST", "/v1/keys", body, once("k"), withKey(adminKey)).problem().Code)
}
