package hosts_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/hosts"
)

var noon = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

func key() hosts.Key { return hosts.Key{Scope: [16]byte{1}, Host: "api.example.com:443"} }

func failures(n int) hosts.Report { return hosts.Report{Key: key(), Failures: n} }

func alive(hosts.Seat) bool { return true }

func seat(n byte) hosts.Seat { return hosts.Seat{Endpoint: [16]byte{n}, Token: int64(n)} }

// opened returns a breaker that just opened.
func opened(t *testing.T) hosts.Breaker {
	t.Helper()
	b := hosts.New(key(), noon)
	b.Apply(noon, failures(hosts.DefaultFailures))
	require.Equal(t, hosts.Open, b.State)
	return b
}

func probe(n byte, v hosts.Verdict) hosts.Report {
	return hosts.Report{Key: key(), Probes: []hosts.Probe{{Seat: seat(n), Verdict: v}}}
}

func TestFailuresOfSeveralWorkersInARowOpen(t *testing.T) {
	t.Parallel()
	b := hosts.New(key(), noon)
	b.Apply(noon, failures(2))
	b.Apply(noon, hosts.Report{Key: key(), Succeeded: true, Failures: 2})
	require.Equal(t, 2, b.Failures, "a success starts the count again")
	b.Apply(noon, failures(2))
	require.Equal(t, hosts.Closed, b.State)
	b.Apply(noon, failures(1))
	require.Equal(t, hosts.Open, b.State)
	require.WithinRange(t, b.OpenUntil, noon.Add(30*time.Second), noon.Add(33*time.Second))
	b.Apply(noon, hosts.Report{Key: key(), Succeeded: true})
	require.Equal(t, hosts.Open, b.State, "a request from before it opened says nothing")
}

func TestWindowsDoubleUpToTenMinutes(t *testing.T) {
	t.Parallel()
	b := opened(t)
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
		now := b.OpenUntil
		require.True(t, b.Admit(now, seat(1), false, alive))
		b.Apply(now, probe(1, hosts.Failure))
		require.WithinRange(t, b.OpenUntil, now.Add(want), now.Add(want+want/10))
	}
}

func TestRetryAfterExtendsAWindowWithinBounds(t *testing.T) {
	t.Parallel()
	b := hosts.New(key(), noon)
	b.Apply(noon, hosts.Report{Key: key(), Failures: 5, RetryAfter: noon.Add(2 * time.Minute)})
	require.Equal(t, noon.Add(2*time.Minute), b.OpenUntil)
	b = hosts.New(key(), noon)
	b.Apply(noon, hosts.Report{Key: key(), Failures: 5, RetryAfter: noon.Add(time.Hour)})
	require.Equal(t, noon.Add(15*time.Minute), b.OpenUntil)
}

func TestTwoSuccessfulProbesClose(t *testing.T) {
	t.Parallel()
	b := opened(t)
	require.False(t, b.Admit(b.OpenUntil.Add(-time.Millisecond), seat(1), false, alive), "the window has not ended")
	for n := range byte(hosts.MaxProbes) {
		require.True(t, b.Admit(b.OpenUntil, seat(n), false, alive))
		require.True(t, b.Admit(b.OpenUntil, seat(n), false, alive), "a repeated request keeps its seat")
	}
	require.False(t, b.Admit(b.OpenUntil, seat(9), false, alive))
	b.Apply(noon, probe(0, hosts.Success))
	require.False(t, b.Admit(b.OpenUntil, seat(9), false, alive), "three probes for each window, one after the other or not")
	b.Apply(noon, probe(9, hosts.Success))
	require.Equal(t, hosts.HalfOpen, b.State, "it had no seat")
	b.Apply(noon, probe(1, hosts.Success))
	require.Equal(t, hosts.Closed, b.State)
	require.Zero(t, b.Openings)
	require.Empty(t, b.Seats)
	require.True(t, b.Admit(noon, seat(9), false, alive))
}

func TestDeadProberFreesItsSeat(t *testing.T) {
	t.Parallel()
	b := opened(t)
	for n := range byte(hosts.MaxProbes) {
		require.True(t, b.Admit(b.OpenUntil, seat(n), false, alive))
	}
	require.True(t, b.Admit(b.OpenUntil, seat(7), false, func(s hosts.Seat) bool { return s != seat(1) }))
	b.Apply(noon, probe(1, hosts.Failure))
	require.Equal(t, hosts.HalfOpen, b.State, "the lost probe no longer counts")
}

func TestForcedRunIsOneProbe(t *testing.T) {
	t.Parallel()
	b := opened(t)
	until := b.OpenUntil
	require.True(t, b.Admit(noon, seat(1), true, alive))
	require.Equal(t, hosts.Open, b.State, "it admits nothing else")
	require.False(t, b.Admit(noon, seat(2), false, alive))
	b.Apply(noon, probe(1, hosts.Failure))
	require.Equal(t, until, b.OpenUntil, "its failure changes nothing")
	require.True(t, b.Admit(noon, seat(3), true, alive))
	b.Apply(noon, probe(3, hosts.Success))
	require.Equal(t, hosts.HalfOpen, b.State)
	require.Equal(t, 1, b.Successes)
}

// TestOnlyLegalMovesAndFewProbes does random steps. At most three probes are admitted between two
// openings, as long as none of them is lost.
func TestOnlyLegalMovesAndFewProbes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b, now := hosts.New(key(), noon), noon
		probes := 0
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			before := b.State
			now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(rt, "pass")) * time.Second)
			n := rapid.Byte().Draw(rt, "endpoint")
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				b.Apply(now, hosts.Report{Key: key(), Succeeded: rapid.Bool().Draw(rt, "success"), Failures: rapid.IntRange(0, 6).Draw(rt, "failures")})
			case 1:
				held := slices.Contains(b.Seats, seat(n))
				if b.Admit(now, seat(n), false, alive) && before != hosts.Closed && !held {
					probes++
				}
			case 2:
				if len(b.Seats) > 0 {
					s := rapid.SampledFrom(b.Seats).Draw(rt, "seat")
					v := hosts.Success
					if rapid.Bool().Draw(rt, "fails") {
						v = hosts.Failure
					}
					b.Apply(now, hosts.Report{Key: key(), Probes: []hosts.Probe{{Seat: s, Verdict: v}}})
				}
			case 3:
				b.Reset(now)
			}
			if b.State != before {
				move := slices.IndexFunc(hosts.Transitions(), func(m hosts.Transition) bool { return m.From == before && m.To == b.State })
				require.GreaterOrEqual(rt, move, 0, "from %s to %s", before, b.State)
			}
			if b.State != hosts.HalfOpen {
				probes = 0
			}
			require.LessOrEqual(rt, probes, hosts.MaxProbes)
			require.Equal(rt, b.State == hosts.Closed, b.OpenUntil.IsZero())
		}
	})
}

func TestEndpointsComeBackOneByOne(t *testing.T) {
	t.Parallel()
	b := opened(t)
	seen := map[time.Time]bool{}
	for n := range byte(100) {
		at := b.Back([16]byte{n}, noon)
		require.WithinRange(t, at, b.OpenUntil, b.OpenUntil.Add(5*time.Second))
		seen[at] = true
	}
	require.Greater(t, len(seen), 90)
	require.True(t, b.Back([16]byte{1}, noon.Add(time.Hour)).After(noon.Add(time.Hour)), "never in the past")
}

func TestTallyReportsNothingOfHealthyHosts(t *testing.T) {
	t.Parallel()
	var tally hosts.Tally
	healthy := hosts.New(key(), noon)
	require.False(t, tally.Add(key(), hosts.Outcome{Verdict: hosts.Success}, healthy))
	require.False(t, tally.Add(key(), hosts.Outcome{Verdict: hosts.Neutral}, healthy))
	require.Empty(t, tally.Take())

	require.True(t, tally.Add(key(), hosts.Outcome{Verdict: hosts.Failure}, healthy))
	require.True(t, tally.Add(key(), hosts.Outcome{Verdict: hosts.Success}, healthy))
	require.True(t, tally.Add(key(), hosts.Outcome{Verdict: hosts.Failure, RetryAfter: noon}, healthy))
	lost := tally.Take()
	require.Equal(t, []hosts.Report{{Key: key(), Succeeded: true, Failures: 1, RetryAfter: noon}}, lost)
	tally.Add(key(), hosts.Outcome{Verdict: hosts.Failure}, healthy)
	tally.PutBack(lost)
	require.Equal(t, []hosts.Report{{Key: key(), Succeeded: true, Failures: 2, RetryAfter: noon}}, tally.Take())

	healthy.Failures = 3
	require.True(t, tally.Add(key(), hosts.Outcome{Verdict: hosts.Success}, healthy), "failures that others counted end")
}

func TestBookForgetsDeletedHosts(t *testing.T) {
	t.Parallel()
	var book hosts.Book
	require.Equal(t, hosts.Closed, book.Get(key()).State)
	b := opened(t)
	book.Put([]hosts.Breaker{b})
	require.Equal(t, hosts.Open, book.Get(key()).State)
	book.Keep([]hosts.Breaker{b})
	require.Equal(t, hosts.Open, book.Get(key()).State)
	book.Keep(nil)
	require.Equal(t, hosts.Closed, book.Get(key()).State)
}

func TestNamesHaveOneForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"API.example.com": "api.example.com:443", "api.example.com.": "api.example.com:443", "api.example.com:8080": "api.example.com:8080",
		"[::1]:80": "[::1]:80", "10.0.0.1": "10.0.0.1:443", "": "", "a:0": "", "a:70000": "", "a/b": "", "a b": "", "https://a": "",
	} {
		got, ok := hosts.ParseName(text)
		require.Equal(t, want, got, text)
		require.Equal(t, want != "", ok, text)
	}
}
