package notices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/notices"
)

func TestSubjectDescribesEpisode(t *testing.T) {
	t.Parallel()
	type edit = func(*notices.Delivery)
	about := func(e notices.Event, d notices.Detail) edit {
		return func(p *notices.Delivery) { p.Event, p.Detail = e, d }
	}
	over := func(e notices.Event) edit {
		return func(p *notices.Delivery) {
			p.Event, p.Kind, p.ClosedAt = e, notices.Recovered, p.OpenedAt.Add(90*time.Minute)
		}
	}
	gone := func(why notices.Cause) edit {
		return func(p *notices.Delivery) {
			p.Kind, p.Cause, p.ClosedAt = notices.Withdrawn, why, p.OpenedAt.Add(90*time.Minute)
		}
	}
	for name, c := range map[string]struct {
		edit edit
		want string
	}{
		"Failures":       {nil, `"shop" fails: 2 failures in a row`},
		"OneFailure":     {about(notices.Failures, notices.Detail{Failures: 1}), `"shop" fails: 1 failure in a row`},
		"Late":           {about(notices.Late, notices.Detail{LateMs: 12_340}), `"shop" runs late, by 12.3s or more`},
		"LateByMinutes":  {about(notices.Late, notices.Detail{LateMs: 120_000}), `"shop" runs late, by 2m or more`},
		"LateByAnHour":   {about(notices.Late, notices.Detail{LateMs: 3_661_400}), `"shop" runs late, by 1h1m1s or more`},
		"Lost":           {about(notices.Lost, notices.Detail{}), `"shop" lost a run`},
		"Paused":         {about(notices.Paused, notices.Detail{}), `"shop" is paused, which no person asked for`},
		"Suggestion":     {about(notices.Suggestion, notices.Detail{}), `"shop" has a suggestion of the planner that waits`},
		"HostOpen":       {about(notices.HostOpen, notices.Detail{Host: "a:443"}), `"shop" calls a:443, which fails: no endpoint of this host runs`},
		"DeadLetter":     {about(notices.DeadLetter, notices.Detail{}), `"shop" has a run that was given up, as a dead letter`},
		"Reminder":       {func(p *notices.Delivery) { p.Kind = notices.Reminder }, `"shop" still fails: 2 failures in a row, for 1m`},
		"FailsNoLonger":  {over(notices.Failures), `"shop" fails no longer after 1h30m`},
		"OnTime":         {over(notices.Late), `"shop" runs on time again after 1h30m`},
		"RunsAgain":      {over(notices.Lost), `"shop" runs again after 1h30m`},
		"PausedNoLonger": {over(notices.Paused), `"shop" is paused no longer after 1h30m`},
		"NoSuggestion":   {over(notices.Suggestion), `"shop" has no suggestion that waits any longer after 1h30m`},
		"NoDeadLetter":   {over(notices.DeadLetter), `"shop" has no open dead letter any longer after 1h30m`},
		"RuleDeleted":    {gone(notices.RuleDeleted), `"shop" is watched no longer after 1h30m: the notice rule was deleted`},
		"RuleChanged":    {gone(notices.RuleChanged), `"shop" is watched no longer after 1h30m: the notice rule was changed`},
		"Archived":       {gone(notices.EndpointArchived), `"shop" is watched no longer after 1h30m: the endpoint was archived`},
		"Test":           {func(p *notices.Delivery) { p.Test = true }, "Test of the notice rule night"},
		"ClocksApart":    {func(p *notices.Delivery) { p.Kind, p.OpenedAt = notices.Reminder, noon.Add(time.Second) }, `"shop" still fails: 2 failures in a row, for 0s`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, parcel(c.edit).Subject())
		})
	}
}

// TestEveryEventHasASubject: every event has a text of its own, so that a new one does not fall
// back to the generic text.
func TestEveryEventHasASubject(t *testing.T) {
	t.Parallel()
	for _, event := range notices.Events() {
		for _, kind := range notices.Kinds() {
			subject := parcel(func(p *notices.Delivery) { p.Event, p.Kind, p.ClosedAt = event, kind, noon }).Subject()
			require.NotContains(t, subject, "needs a look", event)
			require.NotContains(t, subject, "is well again", event)
		}
	}
	for _, why := range notices.Causes() {
		subject := parcel(func(p *notices.Delivery) { p.Kind, p.Cause, p.ClosedAt = notices.Withdrawn, why, noon }).Subject()
		require.NotContains(t, subject, "nobody looks any more", why)
	}
}

func TestMessageLinesContainOnlyKnownFacts(t *testing.T) {
	t.Parallel()
	first := []string{"Endpoint: ep_00000000-0000-0000-0000-000000000000", "Rule: night", "Since: 2026-11-22T11:59:00Z"}
	require.Equal(t, first, parcel(nil).Lines())
	require.Equal(t, append(first, "Until: 2026-11-22T12:00:00Z", "Run: run_1", "Outcome: failed http_status (503)", "Error: no", "Reason: why", "Suggestion: sug_1"),
		parcel(func(p *notices.Delivery) {
			p.ClosedAt = noon
			p.Detail = notices.Detail{
				RunID: "run_1", Status: "failed", ReasonCode: "http_status", StatusCode: 503, Error: "no", Reason: "why", SuggestionID: "sug_1",
			}
		}).Lines())
	require.Equal(t, append(first, "Until: 2026-11-22T12:00:00Z", "Ended: the endpoint was archived; whether it recovered is not known"),
		parcel(func(p *notices.Delivery) {
			p.Kind, p.Cause, p.ClosedAt = notices.Withdrawn, notices.EndpointArchived, noon
		}).Lines())
	require.Equal(t, append(first, "Runbook: https://wiki.example.com/"), parcel(func(p *notices.Delivery) { p.Spec.RunbookURL = "https://wiki.example.com/" }).Lines())
	require.Equal(t, append(first, "Outcome: failed"), parcel(func(p *notices.Delivery) { p.Detail = notices.Detail{Status: "failed"} }).Lines())
}
