package hosts_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/hosts"
)

// TestGuardFollowsTheRulesOfHosts opens the breaker of a target, lets probes fail and succeed, and
// compares with the constants of the breakers in the database.
func TestGuardFollowsTheRulesOfHosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := hosts.NewGuard(0)
		one, other := hosts.Key{Scope: [16]byte{1}, Host: "a:443"}, hosts.Key{Scope: [16]byte{2}, Host: "a:443"}
		send := func(key hosts.Key, v hosts.Verdict) {
			p, _, admitted := g.Admit(key, false)
			require.True(t, admitted)
			g.End(p, v, time.Time{})
		}
		for range hosts.DefaultFailures - 1 {
			send(one, hosts.Failure)
		}
		send(one, hosts.Success)
		for range hosts.DefaultFailures {
			send(one, hosts.Failure)
		}
		send(other, hosts.Success)
		_, again, admitted := g.Admit(one, false)
		require.False(t, admitted)
		open := g.OpenUntil(one)
		require.WithinRange(t, open, time.Now().Add(hosts.DefaultWindow), time.Now().Add(hosts.DefaultWindow*11/10))
		require.False(t, again.Before(open))

		time.Sleep(time.Until(open))
		require.Zero(t, g.OpenUntil(one))
		var probes []hosts.Pass
		for range hosts.MaxProbes {
			p, _, admitted := g.Admit(one, false)
			require.True(t, admitted)
			require.True(t, p.Probe())
			probes = append(probes, p)
		}
		_, _, admitted = g.Admit(one, false)
		require.False(t, admitted, "three probes are in flight")
		g.End(probes[0], hosts.Neutral, time.Time{})
		_, _, admitted = g.Admit(one, false)
		require.True(t, admitted, "a probe without an outcome leaves its seat")
		g.End(probes[1], hosts.Failure, time.Time{})
		require.Greater(t, time.Until(g.OpenUntil(one)), 2*hosts.DefaultWindow-time.Second, "each window is twice as long")
		g.End(probes[2], hosts.Success, time.Time{})
		require.NotZero(t, g.OpenUntil(one), "a late success of the window before counts no more")

		time.Sleep(time.Until(g.OpenUntil(one)))
		for range hosts.ProbeSuccesses {
			send(one, hosts.Success)
		}
		p, _, admitted := g.Admit(one, false)
		require.True(t, admitted)
		require.False(t, p.Probe(), "the breaker is closed")

		g.Trip(one)
		time.Sleep(time.Until(g.OpenUntil(one)))
		for range hosts.MaxProbes {
			g.Admit(one, false) // Its holder panics.
		}
		_, _, admitted = g.Admit(one, false)
		require.False(t, admitted)
		time.Sleep(5 * time.Minute)
		_, _, admitted = g.Admit(one, false)
		require.True(t, admitted, "no probe takes so long")
	})
}

// TestGuardIsTrippedAndForced opens a breaker without a request, and sends one past it.
func TestGuardIsTrippedAndForced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const window = 7 * time.Second
		g, key := hosts.NewGuard(window), hosts.Key{Host: "model"}
		g.Trip(key)
		open := g.OpenUntil(key)
		require.WithinRange(t, open, time.Now().Add(window), time.Now().Add(window*11/10))
		g.Trip(key)
		require.Equal(t, open, g.OpenUntil(key), "it is open already")
		_, _, admitted := g.Admit(key, false)
		require.False(t, admitted)
		for range hosts.ProbeSuccesses {
			p, _, admitted := g.Admit(key, true)
			require.True(t, admitted)
			g.End(p, hosts.Success, time.Time{})
		}
		require.Zero(t, g.OpenUntil(key), "forced requests close it")
		asked := time.Now().Add(time.Minute)
		for range hosts.DefaultFailures {
			p, _, _ := g.Admit(key, false)
			g.End(p, hosts.Failure, asked)
		}
		require.Equal(t, asked, g.OpenUntil(key), "the target asked to wait")
	})
}
