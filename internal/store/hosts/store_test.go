package hosts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/hosts"
	hoststore "rubato/internal/store/hosts"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = hosts.Key{Scope: keystore.DefaultTenant, Host: "api.example.com:443"}

func actor() auditlog.Actor { return auditlog.Actor{TenantID: keystore.DefaultTenant, Name: "ada"} }

// TestSeatEndsWithTheLockOfItsClaim takes all seats of a host and revokes one claim.
func TestSeatEndsWithTheLockOfItsClaim(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	s := hoststore.New(b.DB)
	list, _, err := s.Report(t.Context(), []hosts.Report{{Key: key, Failures: hosts.DefaultFailures}})
	require.NoError(t, err)
	require.Equal(t, hosts.Open, list[0].State)
	b.At(list[0].OpenUntil)
	var asked []hosts.Probing
	for range hosts.MaxProbes + 1 {
		e := b.Register(t, nil)
		b.Exec(t, `UPDATE schedules SET claim_token = claim_token + 1, claimed_by = gen_random_uuid(), claimed_at = $2, due_at = $2::timestamptz + interval '1 minute'
			WHERE endpoint_id = $1`, e.ID, list[0].OpenUntil)
		token := storetest.Query[int64](t, b, "SELECT claim_token FROM schedules WHERE endpoint_id = $1", e.ID)
		asked = append(asked, hosts.Probing{Key: key, Seat: hosts.Seat{Endpoint: e.ID, Token: token}})
	}
	admitted, list, err := s.Admit(t.Context(), asked)
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true, false}, admitted)
	require.Equal(t, hosts.HalfOpen, list[0].State)

	b.Exec(t, "UPDATE schedules SET claim_token = claim_token + 1, claimed_by = NULL, claimed_at = NULL WHERE endpoint_id = $1", asked[1].Endpoint)
	admitted, list, err = s.Admit(t.Context(), asked[3:])
	require.NoError(t, err)
	require.Equal(t, []bool{true}, admitted)
	require.Len(t, list[0].Seats, hosts.MaxProbes)
}

// TestReportsOfWorkersAddUp merges failures of two workers, and reads only what changed.
func TestReportsOfWorkersAddUp(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	one, two := hoststore.New(b.DB), hoststore.New(b.DB)
	_, _, err := one.Report(t.Context(), []hosts.Report{{Key: key, Failures: 3}})
	require.NoError(t, err)
	all, now, err := two.Changed(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, 3, all[0].Failures)
	none, _, err := two.Changed(t.Context(), now.Add(time.Hour))
	require.NoError(t, err)
	require.Empty(t, none)
	list, _, err := two.Report(t.Context(), []hosts.Report{{Key: key, Failures: 2}})
	require.NoError(t, err)
	require.Equal(t, hosts.Open, list[0].State)
}

func TestSettingsAreStoredResetAndAudited(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	s := hosts.NewService(hoststore.New(b.DB), false)
	_, err := s.Reset(t.Context(), actor(), "api.example.com")
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	stored, err := s.Set(t.Context(), actor(), "API.example.com", hosts.Patch{Threshold: new(1), Window: new(time.Second)})
	require.NoError(t, err)
	require.Equal(t, key, stored.Key)
	list, _, err := hoststore.New(b.DB).Report(t.Context(), []hosts.Report{{Key: key, Failures: 1}})
	require.NoError(t, err)
	require.Equal(t, hosts.Open, list[0].State)
	require.WithinRange(t, list[0].OpenUntil, list[0].Since.Add(999*time.Millisecond), list[0].Since.Add(1100*time.Millisecond))
	stored, err = s.Set(t.Context(), actor(), key.Host, hosts.Patch{Threshold: new(0)})
	require.NoError(t, err)
	require.Equal(t, hosts.DefaultFailures, stored.ToOpen())
	require.Equal(t, time.Second, stored.FirstWindow(), "an absent setting stays")
	require.Equal(t, hosts.Open, stored.State)
	stored, err = s.Reset(t.Context(), actor(), key.Host)
	require.NoError(t, err)
	require.Equal(t, hosts.Closed, stored.State)
	_, err = s.Get(t.Context(), b.OtherTenant(t), key.Host)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	require.Len(t, storetest.Logged(t, b, func(f *auditlog.Filter) { f.Kind = auditlog.Host }), 3)
}

// TestIdleHostsAreDeletedAfterADay leaves hosts with settings.
func TestIdleHostsAreDeletedAfterADay(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	now := b.At(storetest.Noon())
	store := hoststore.New(b.DB)
	_, err := store.SetHost(t.Context(), actor(), key, hosts.Patch{Threshold: new(9)})
	require.NoError(t, err)
	other := hosts.Key{Scope: key.Scope, Host: "b.example.com:80"}
	_, _, err = store.Report(t.Context(), []hosts.Report{{Key: other, Failures: 1}})
	require.NoError(t, err)
	_, _, err = store.Report(t.Context(), []hosts.Report{{Key: other, Succeeded: true}})
	require.NoError(t, err)
	require.NoError(t, store.DropIdle(t.Context()))
	require.EqualValues(t, 2, storetest.Query[int64](t, b, "SELECT count(*) FROM hosts"))
	b.At(now.Add(25 * time.Hour))
	require.NoError(t, store.DropIdle(t.Context()))
	require.Equal(t, key.Host, storetest.Query[string](t, b, "SELECT host FROM hosts"))
}

// TestEndpointsThatWaitForAHostAreCounted counts those that are due, and those of an open host.
func TestEndpointsThatWaitForAHostAreCounted(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	now := b.At(storetest.Noon())
	s := hosts.NewService(hoststore.New(b.DB), false)
	b.Register(t, func(s *endpoints.Spec) { s.URL = "https://api.example.com/running" })
	b.At(now.Add(time.Minute))
	b.StartOne(t, storetest.Worker{1})
	at := func(url, set string) {
		e := b.Register(t, func(s *endpoints.Spec) { s.URL = url })
		b.Exec(t, "UPDATE schedules SET planned_at = $2::timestamptz + interval '1 hour', due_at = $2::timestamptz + interval '1 hour' WHERE endpoint_id = $1", e.ID, now)
		if set != "" {
			b.Exec(t, "UPDATE schedules SET "+set+" WHERE endpoint_id = $1", e.ID)
		}
	}
	const due = "planned_at = '2020-01-01', due_at = '2020-01-01'"
	at("https://api.example.com/later", "")
	at("https://api.example.com/due", due)
	at("https://api.example.com/open", "source = 'circuit-open'")
	at("https://api.example.com/paused", due+", paused_until = '2199-01-01'")
	at("https://other.example.com/due", due)

	view, err := s.Set(t.Context(), actor(), "api.example.com", hosts.Patch{Threshold: new(9)})
	require.NoError(t, err)
	require.Equal(t, hosts.Traffic{Endpoints: 5, Waiting: 2}, view.Traffic)
	_, err = s.Set(t.Context(), actor(), "idle.example.com", hosts.Patch{Threshold: new(9)})
	require.NoError(t, err)
	list, err := s.List(t.Context(), actor(), "", 10)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, view.Traffic, list[0].Traffic)
	require.Zero(t, list[1].Traffic)
}
