package views_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/store/storetest"
)

func TestEveryChangeOfAnEndpointIsLogged(t *testing.T) {
	t.Parallel()
	for name, change := range storetest.Changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.Register(t, nil)
			b.disturb(t, e.ID)
			before := len(storetest.Logged(t, b.Bundle, nil))
			change(b.Bundle, t, e.ID)
			list := storetest.Logged(t, b.Bundle, nil)
			require.Len(t, list, before+1)
			require.Equal(t, e.Object(), list[0].Object)
			require.Equal(t, storetest.Tenant.Name, list[0].By.Name)
			require.NotNil(t, list[0].Before)
			require.NotNil(t, list[0].After)
		})
	}
}

// disturb leaves an endpoint paused, hinted and failing, so that whatever sets one of these right
// changes something.
func (b *bundle) disturb(t *testing.T, id endpoints.ID) {
	t.Helper()
	storetest.Changes["IntervalHint"](b.Bundle, t, id)
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, id, endpoints.PauseRequest{Until: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	b.Exec(t, "UPDATE schedules SET failure_count = 3")
}

func TestNoopChangeIsNotAudited(t *testing.T) {
	t.Parallel()
	for name, change := range storetest.Changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.Register(t, nil)
			b.disturb(t, e.ID)
			change(b.Bundle, t, e.ID)
			before, stood := len(storetest.Logged(t, b.Bundle, nil)), b.Get(t, e.ID)
			change(b.Bundle, t, e.ID)
			if name == "RunNow" || name == "IntervalHint" || name == "OneShotHint" { // An act by itself, and hints that hold for longer.
				require.Len(t, storetest.Logged(t, b.Bundle, nil), before+1)
				return
			}
			require.Len(t, storetest.Logged(t, b.Bundle, nil), before)
			require.Equal(t, stood.Version, b.Get(t, e.ID).Version, "no version that the log does not know")
		})
	}
}

// A wait that the target asked for is no failure, and a reset ends it all the same.
func TestAnEndOfAWaitIsLogged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	b.Exec(t, "UPDATE schedules SET retry_after = now() + interval '1 h'")
	storetest.Changes["ResetFailures"](b.Bundle, t, e.ID)
	require.Contains(t, string(storetest.Logged(t, b.Bundle, nil)[0].Before), "retryAfter")
}

// The same hint by another author is another hint.
func TestAnotherAuthorOfAHintIsLogged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	until := time.Now().Add(time.Hour)
	for i, name := range []string{"one", "two", "two"} {
		by := endpoints.Actor{TenantID: storetest.Tenant.TenantID, Name: name}
		_, _, err := b.Service.SetIntervalHint(t.Context(), by, e.ID, endpoints.HintRequest{Interval: 5 * time.Second, ExpiresAt: until})
		require.NoError(t, err)
		require.Len(t, storetest.Logged(t, b.Bundle, nil), min(i+2, 3), name)
	}
}

func TestAuditLogListsChangesWithoutSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, func(s *endpoints.Spec) {
		s.Headers = map[string]string{"Authorization": "canary-one", "X-Shop": "berlin"}
		s.URL, s.Body, s.Method = "http://target.example/?token=canary-two&page=2", "canary-three", "POST"
	})
	made := storetest.Logged(t, b.Bundle, nil)[0]
	require.Nil(t, made.Before)
	require.EqualValues(t, "register", made.Action)
	require.NotContains(t, string(made.After), "canary")
	require.Contains(t, string(made.After), "page=2")
	require.Contains(t, string(made.After), "berlin")

	b.Edit(t, e.ID, func(s *endpoints.Spec) {
		s.Name, s.Headers["Authorization"] = "renamed", "canary-four"
	})
	edited := storetest.Logged(t, b.Bundle, nil)[0]
	var old, fresh map[string]any
	require.NoError(t, json.Unmarshal(edited.Before, &old))
	require.NoError(t, json.Unmarshal(edited.After, &fresh))
	hidden := map[string]any{"Authorization": "***", "X-Shop": "berlin"}
	require.Equal(t, map[string]any{"name": "probe", "headers": hidden}, old, "a secret that changed is seen to have changed, and no more")
	require.Equal(t, map[string]any{"name": "renamed", "headers": hidden}, fresh)
}

func TestARefusedChangeIsNotLogged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Until: time.Unix(1, 0)})
	require.Error(t, err)
	_, _, err = b.Service.Edit(t.Context(), storetest.Tenant, e.ID, 99, func(s endpoints.Spec) (endpoints.Spec, error) { return s, nil })
	require.Error(t, err)
	require.Len(t, storetest.Logged(t, b.Bundle, nil), 1)
}

func TestTheLogOnlyGrows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	for _, sql := range []string{"UPDATE audit_log SET actor = 'nobody'", "DELETE FROM audit_log", "TRUNCATE audit_log"} {
		_, err := b.Pool.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "append-only", sql)
	}
}

func TestTheLogIsFilteredAndOrdered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, two := b.Register(t, nil), b.Register(t, nil)
	storetest.Changes["Pause"](b.Bundle, t, one.ID)
	storetest.Changes["Resume"](b.Bundle, t, one.ID)
	storetest.Changes["Pause"](b.Bundle, t, two.ID)
	all := storetest.Logged(t, b.Bundle, nil)
	require.Len(t, all, 5)
	for i := range all[1:] {
		require.Positive(t, all[i].At.Compare(all[i+1].At), "newest first")
	}
	count := func(edit func(*auditlog.Filter)) int { return len(storetest.Logged(t, b.Bundle, edit)) }
	require.Equal(t, 3, count(func(f *auditlog.Filter) { f.ObjectID = one.ID.String() }))
	require.Equal(t, 2, count(func(f *auditlog.Filter) { f.Action = "pause" }))
	require.Equal(t, 5, count(func(f *auditlog.Filter) { f.Kind = auditlog.Endpoint }))
	require.Zero(t, count(func(f *auditlog.Filter) { f.Kind = auditlog.Key }))
	require.Zero(t, count(func(f *auditlog.Filter) { f.KeyID = [16]byte{1} }))
	require.Equal(t, 3, count(func(f *auditlog.Filter) { f.From = all[2].At }), "from is included")
	require.Equal(t, 2, count(func(f *auditlog.Filter) { f.To = all[2].At }), "to is not")
	require.Equal(t, 2, count(func(f *auditlog.Filter) { f.Before = all[2].ID }))
	require.Zero(t, count(func(f *auditlog.Filter) { f.TenantID = [16]byte{9} }))
}

// A list of a long log reads only the rows that it returns.
func TestListsOfTheLogFollowAnIndex(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(t, `INSERT INTO audit_log (id, tenant_id, at, actor, action, object_kind, object_id, request_id, remote_address)
		SELECT audit_log_id(now() - n * interval '1 s'), $1, now() - n * interval '1 s', 'a', 'edit', 'endpoint', 'ep_' || n % 100, '', ''
		FROM generate_series(1, 20000) AS n`, storetest.Tenant.TenantID)
	b.Exec(t, "ANALYZE audit_log")
	first, last := auditlog.FirstID(time.Now().Add(-time.Hour)), auditlog.FirstID(time.Now().Add(-59*time.Minute))
	for where, args := range map[string][]any{
		"id < $2":                    {auditlog.LastID()},
		"id >= $2 AND id < $3":       {first, last},
		"id < $2 AND object_id = $3": {auditlog.LastID(), "ep_7"},
	} {
		rows, err := b.Pool.Query(t.Context(), "EXPLAIN SELECT * FROM audit_log WHERE tenant_id = $1 AND "+where+" ORDER BY id DESC LIMIT 50",
			append([]any{storetest.Tenant.TenantID}, args...)...)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		text := strings.Join(plan, "\n")
		require.Regexp(t, `Index Cond: \(.*id [<>]`, text, where)
		require.NotContains(t, text, "Sort", where)
		require.NotContains(t, text, "Bitmap", where)
	}
}

// The identity that the schema makes of an instant lies where that of the code says.
func TestIdentitiesOfTheLogAreThoseOfTheirInstants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := time.Date(2026, 11, 21, 10, 0, 0, 123_456_000, time.UTC)
	made := auditlog.ID(storetest.Query[[16]byte](t, b.Bundle, "SELECT audit_log_id($1)", at))
	low, high := auditlog.FirstID(at), auditlog.FirstID(at.Add(time.Microsecond))
	require.Positive(t, bytes.Compare(made[:], low[:]))
	require.Negative(t, bytes.Compare(made[:], high[:]))
	require.Equal(t, uuid.Version(8), uuid.UUID(made).Version())
	require.Equal(t, uuid.RFC4122, uuid.UUID(made).Variant())
}
