package governor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/governor"
)

// T is the anchor of the worked cases.
var T = time.Date(2026, time.March, 10, 12, 0, 0, 0, time.UTC)

// at returns T + d.
func at(d time.Duration) time.Time { return T.Add(d) }

// grid is a cron that fires at every whole multiple of its period since the year 1.
type grid time.Duration

func (g grid) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(g)).Add(time.Duration(g))
}

// daily is a cron that fires at one hour of every UTC day.
type daily int

func (d daily) Next(after time.Time) time.Time {
	y, m, day := after.UTC().Date()
	next := time.Date(y, m, day, int(d), 0, 0, 0, time.UTC)
	if !next.After(after) {
		next = next.AddDate(0, 0, 1)
	}
	return next
}

// listed is a cron that fires at the given instants, in order, and then never again.
type listed []time.Time

func (l listed) Next(after time.Time) time.Time {
	for _, t := range l {
		if t.After(after) {
			return t
		}
	}
	return time.Time{}
}

// cronFunc is a cron of a function.
type cronFunc func(after time.Time) time.Time

func (f cronFunc) Next(after time.Time) time.Time { return f(after) }

// counted is a cron that counts how often it is asked.
type counted struct {
	governor.Cron
	asked int
}

func (c *counted) Next(after time.Time) time.Time {
	c.asked++
	return c.Cron.Next(after)
}

// every is an interval baseline.
func every(d time.Duration) governor.Baseline { return governor.Baseline{Interval: d} }

// on is a cron baseline.
func on(c governor.Cron) governor.Baseline { return governor.Baseline{Cron: c} }

// hintEvery is an interval hint that is fresh until T + ttl.
func hintEvery(d, ttl time.Duration) *governor.IntervalHint {
	return &governor.IntervalHint{Interval: d, ExpiresAt: at(ttl)}
}

// hintOnce is a one-shot hint for T + due that is fresh until T + ttl.
func hintOnce(due, ttl time.Duration) *governor.OneShotHint {
	return &governor.OneShotHint{At: at(due), ExpiresAt: at(ttl)}
}

// ruleCase is one row of a table: an input with its expected decision. A zero wantSlot means
// wantAt.
type ruleCase struct {
	name       string
	in         governor.Input
	wantAt     time.Time
	wantSource governor.Source
	wantRules  []governor.Rule
	wantSlot   time.Time
}

// runCases decides every row and compares.
func runCases(t *testing.T, cases []ruleCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := governor.Decide(tc.in)
			require.Equal(t, tc.wantAt.String(), got.At.String())
			require.Equal(t, tc.wantSource, got.Source)
			if tc.wantRules != nil {
				require.Equal(t, tc.wantRules, rulesOf(got))
			}
			wantSlot := tc.wantSlot
			if wantSlot.IsZero() {
				wantSlot = tc.wantAt
			}
			require.Equal(t, wantSlot.String(), got.Slot.String())
			requireSound(t, tc.in, got)
		})
	}
}

// rulesOf returns the rules of the trace, in order.
func rulesOf(d governor.Decision) []governor.Rule {
	rules := make([]governor.Rule, 0, len(d.Steps))
	for _, s := range d.Steps {
		rules = append(rules, s.Rule)
	}
	return rules
}

// requirer is what *testing.T and *rapid.T share.
type requirer interface {
	require.TestingT
	Helper()
}

// requireSound checks the invariants of every decision.
func requireSound(t requirer, in governor.Input, got governor.Decision) {
	t.Helper()
	require.False(t, got.At.Before(in.Now) && in.Now.Before(governor.Indefinite), "never before now: %v < %v", got.At, in.Now)
	require.False(t, got.At.After(governor.Indefinite), "never after the end: %v", got.At)
	require.False(t, got.Slot.After(got.At), "a run stands for no later time than its own")
	require.Contains(t, governor.Sources(), got.Source)
	require.NotEqual(t, governor.SourceManual, got.Source)
	require.NotEmpty(t, got.Steps)
	require.Equal(t, got.At, got.Steps[len(got.Steps)-1].At, "the last step leaves the decision")
	for _, s := range got.Steps {
		require.NotEmpty(t, s.Why)
	}
	for _, instant := range []time.Time{got.At, got.Slot} {
		require.Equal(t, time.UTC, instant.Location())
		require.Equal(t, instant.Round(0), instant, "no monotonic reading")
	}
}
