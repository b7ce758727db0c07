package notices_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
	"rubato/internal/notices"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// parcel is a due delivery about two failures in a row, a minute ago.
func parcel(edit func(*notices.Delivery)) *notices.Delivery {
	p := &notices.Delivery{Now: noon}
	p.Kind, p.Event, p.Rule, p.EndpointName = notices.Opened, notices.Failures, "night", "shop"
	p.OpenedAt, p.Detail.Failures = noon.Add(-time.Minute), 2
	if edit != nil {
		edit(p)
	}
	return p
}

// TestDeliveryVerdicts covers deleted rules, maintenance windows, and earlier attempts.
func TestDeliveryVerdicts(t *testing.T) {
	t.Parallel()
	window := func(p *notices.Delivery) { p.HeldUntil = noon.Add(time.Hour) }
	over := func(p *notices.Delivery) { p.ClosedAt = noon.Add(-time.Second) }
	held := func(p *notices.Delivery) { p.Held = true }
	recovered := func(p *notices.Delivery) { p.Kind = notices.Recovered }
	withdrawn := func(p *notices.Delivery) { p.Kind = notices.Withdrawn }
	reminder := func(p *notices.Delivery) { p.Kind = notices.Reminder }
	untold := func(p *notices.Delivery) { p.BeginUnsent = true }
	behind := func(p *notices.Delivery) { p.EarlierEndQueued = true }
	overtaken := func(p *notices.Delivery) { p.Overtaken = true }
	alert := func(p *notices.Delivery) { p.Channel.Kind = notices.Alertmanager }
	unreadable := func(p *notices.Delivery) { p.Fault = errors.New("no JSON") }
	for name, c := range map[string]struct {
		edits []func(*notices.Delivery)
		want  notices.Verdict
	}{
		"Plain":                       {nil, notices.Send},
		"RuleGone":                    {[]func(*notices.Delivery){func(p *notices.Delivery) { p.RuleGone = true }}, notices.Mute},
		"RuleGoneInAWindow":           {[]func(*notices.Delivery){window, func(p *notices.Delivery) { p.RuleGone = true }}, notices.Mute},
		"Unreadable":                  {[]func(*notices.Delivery){unreadable}, notices.GiveUp},
		"UnreadableAgain":             {[]func(*notices.Delivery){unreadable, func(p *notices.Delivery) { p.Attempts = 1 }}, notices.GiveUp},
		"UnreadableAndItsRuleIsGone":  {[]func(*notices.Delivery){unreadable, func(p *notices.Delivery) { p.RuleGone = true }}, notices.Mute},
		"InAWindow":                   {[]func(*notices.Delivery){window}, notices.Postpone},
		"WindowEndsNow":               {[]func(*notices.Delivery){func(p *notices.Delivery) { p.HeldUntil = noon }}, notices.Send},
		"GoesOnAfterTheWindow":        {[]func(*notices.Delivery){held}, notices.Send},
		"OverWhenTheWindowIs":         {[]func(*notices.Delivery){held, over}, notices.Mute},
		"OverWhileTheWindowLasts":     {[]func(*notices.Delivery){held, over, window}, notices.Mute},
		"HeldByAnotherWindow":         {[]func(*notices.Delivery){held, window}, notices.Postpone},
		"EndOfWhatWasToldBefore":      {[]func(*notices.Delivery){held, over, recovered}, notices.Send},
		"EndWhileTheWindowLasts":      {[]func(*notices.Delivery){over, recovered, window}, notices.Postpone},
		"EndOfWhatNobodyWasTold":      {[]func(*notices.Delivery){over, recovered, untold}, notices.Mute},
		"LastNotice":                  {[]func(*notices.Delivery){over, withdrawn}, notices.Send},
		"LastNoticeInAWindow":         {[]func(*notices.Delivery){over, withdrawn, window}, notices.Postpone},
		"LastNoticeAfterAWindow":      {[]func(*notices.Delivery){over, withdrawn, held}, notices.Send},
		"ReminderThatCameTooLate":     {[]func(*notices.Delivery){held, over, reminder}, notices.Mute},
		"OverWithoutAWindow":          {[]func(*notices.Delivery){over}, notices.Send},
		"TriedBeforeTheWindow":        {[]func(*notices.Delivery){window, func(p *notices.Delivery) { p.Attempts = 1 }}, notices.Send},
		"BehindInAChat":               {[]func(*notices.Delivery){behind}, notices.Send},
		"BehindItsAlert":              {[]func(*notices.Delivery){behind, alert}, notices.Queue},
		"BehindAndMaybeThere":         {[]func(*notices.Delivery){behind, alert, func(p *notices.Delivery) { p.Attempts = 1 }}, notices.Send},
		"BehindInAWindow":             {[]func(*notices.Delivery){behind, alert, window}, notices.Postpone},
		"OvertakenInAChat":            {[]func(*notices.Delivery){over, recovered, overtaken}, notices.Send},
		"OvertakenByItsAlert":         {[]func(*notices.Delivery){over, recovered, overtaken, alert}, notices.Mute},
		"TriedAfterAWindowAndNowOver": {[]func(*notices.Delivery){held, over, func(p *notices.Delivery) { p.Attempts = 1 }}, notices.Mute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdict, why := parcel(func(p *notices.Delivery) {
				for _, edit := range c.edits {
					edit(p)
				}
			}).Judge()
			require.Equal(t, c.want, verdict)
			require.Equal(t, verdict == notices.Mute || verdict == notices.GiveUp, why != "", "who looks it up is told why nobody was told: %q", why)
		})
	}
}

func TestRetryWaitsGrowAndHonourRetryAfter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attempts int
		asked    time.Duration
		share    float64
		want     time.Duration
	}{
		"First":         {1, 0, 0, 5 * time.Second},
		"Second":        {2, 0, 0, 10 * time.Second},
		"Spread":        {2, 0, 0.5, 11 * time.Second},
		"Longest":       {9, 0, 0, 15 * time.Minute},
		"Last":          {notices.MaxAttempts, 0, 0, 15 * time.Minute},
		"VeryMany":      {1 << 20, 0, 0, 15 * time.Minute},
		"None":          {0, 0, 0, 5 * time.Second},
		"AskedForMore":  {1, time.Minute, 0, time.Minute},
		"AskedForLess":  {5, time.Second, 0, 80 * time.Second},
		"AskedTooMuch":  {1, 24 * time.Hour, 0, time.Hour},
		"AskedNonsense": {1, -time.Hour, 0, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, notices.Wait(c.attempts, c.asked, c.share))
		})
	}
	var all time.Duration
	for n := 1; n < notices.MaxAttempts; n++ {
		all += notices.Wait(n, 0, 0)
	}
	require.InDelta(t, 2, all.Hours(), 0.6, "a receiver may be away for about two hours")
}

func TestIDsSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	id := notices.ID{1, 2, 3, 15: 9}
	require.Equal(t, "ntc_01020300-0000-0000-0000-000000000009", id.String())
	read, err := notices.ParseID(id.String())
	require.NoError(t, err)
	require.Equal(t, id, read)
	for text, code := range map[string]errs.Code{
		"": errs.NotFound, "ntc_": errs.NotFound, "01020300-0000-0000-0000-000000000009": errs.NotFound, "run_01020300-0000-0000-0000-000000000009": errs.NotFound,
		"ntc_{01020300-0000-0000-0000-000000000009}": errs.NotFound, "ntc_\x00": errs.Malformed, "\xff": errs.Malformed,
	} {
		_, err := notices.ParseID(text)
		require.Equal(t, code, errs.CodeOf(err), "%q", text)
		require.ErrorContains(t, err, "a notice id looks like ntc_", "%q", text)
	}
}
