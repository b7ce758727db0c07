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

// parcel is one that is to be sent: of two failures in a row a minute ago.
func parcel(edit func(*notices.Parcel)) *notices.Parcel {
	p := &notices.Parcel{Now: noon}
	p.Kind, p.Event, p.Rule, p.EndpointName = notices.Opened, notices.Failures, "night", "shop"
	p.OpenedAt, p.Detail.Failures = noon.Add(-time.Minute), 2
	if edit != nil {
		edit(p)
	}
	return p
}

// TestAParcelIsSentUnlessSomethingHoldsIt goes through rules that are gone, windows, and what was tried before.
func TestAParcelIsSentUnlessSomethingHoldsIt(t *testing.T) {
	t.Parallel()
	window := func(p *notices.Parcel) { p.HeldUntil = noon.Add(time.Hour) }
	over := func(p *notices.Parcel) { p.ClosedAt = noon.Add(-time.Second) }
	held := func(p *notices.Parcel) { p.Held = true }
	recovered := func(p *notices.Parcel) { p.Kind = notices.Recovered }
	withdrawn := func(p *notices.Parcel) { p.Kind = notices.Withdrawn }
	reminder := func(p *notices.Parcel) { p.Kind = notices.Reminder }
	untold := func(p *notices.Parcel) { p.Untold = true }
	behind := func(p *notices.Parcel) { p.Behind = true }
	overtaken := func(p *notices.Parcel) { p.Overtaken = true }
	alert := func(p *notices.Parcel) { p.Channel.Kind = notices.Alertmanager }
	unreadable := func(p *notices.Parcel) { p.Fault = errors.New("no JSON") }
	for name, c := range map[string]struct {
		edits []func(*notices.Parcel)
		want  notices.Verdict
	}{
		"Plain":                       {nil, notices.Send},
		"RuleGone":                    {[]func(*notices.Parcel){func(p *notices.Parcel) { p.RuleGone = true }}, notices.Mute},
		"RuleGoneInAWindow":           {[]func(*notices.Parcel){window, func(p *notices.Parcel) { p.RuleGone = true }}, notices.Mute},
		"Unreadable":                  {[]func(*notices.Parcel){unreadable}, notices.GiveUp},
		"UnreadableAgain":             {[]func(*notices.Parcel){unreadable, func(p *notices.Parcel) { p.Attempts = 1 }}, notices.GiveUp},
		"UnreadableAndItsRuleIsGone":  {[]func(*notices.Parcel){unreadable, func(p *notices.Parcel) { p.RuleGone = true }}, notices.Mute},
		"InAWindow":                   {[]func(*notices.Parcel){window}, notices.Postpone},
		"WindowEndsNow":               {[]func(*notices.Parcel){func(p *notices.Parcel) { p.HeldUntil = noon }}, notices.Send},
		"GoesOnAfterTheWindow":        {[]func(*notices.Parcel){held}, notices.Send},
		"OverWhenTheWindowIs":         {[]func(*notices.Parcel){held, over}, notices.Mute},
		"OverWhileTheWindowLasts":     {[]func(*notices.Parcel){held, over, window}, notices.Mute},
		"HeldByAnotherWindow":         {[]func(*notices.Parcel){held, window}, notices.Postpone},
		"EndOfWhatWasToldBefore":      {[]func(*notices.Parcel){held, over, recovered}, notices.Send},
		"EndWhileTheWindowLasts":      {[]func(*notices.Parcel){over, recovered, window}, notices.Postpone},
		"EndOfWhatNobodyWasTold":      {[]func(*notices.Parcel){over, recovered, untold}, notices.Mute},
		"LastNotice":                  {[]func(*notices.Parcel){over, withdrawn}, notices.Send},
		"LastNoticeInAWindow":         {[]func(*notices.Parcel){over, withdrawn, window}, notices.Postpone},
		"LastNoticeAfterAWindow":      {[]func(*notices.Parcel){over, withdrawn, held}, notices.Send},
		"ReminderThatCameTooLate":     {[]func(*notices.Parcel){held, over, reminder}, notices.Mute},
		"OverWithoutAWindow":          {[]func(*notices.Parcel){over}, notices.Send},
		"TriedBeforeTheWindow":        {[]func(*notices.Parcel){window, func(p *notices.Parcel) { p.Attempts = 1 }}, notices.Send},
		"BehindInAChat":               {[]func(*notices.Parcel){behind}, notices.Send},
		"BehindItsAlert":              {[]func(*notices.Parcel){behind, alert}, notices.Queue},
		"BehindAndMaybeThere":         {[]func(*notices.Parcel){behind, alert, func(p *notices.Parcel) { p.Attempts = 1 }}, notices.Send},
		"BehindInAWindow":             {[]func(*notices.Parcel){behind, alert, window}, notices.Postpone},
		"OvertakenInAChat":            {[]func(*notices.Parcel){over, recovered, overtaken}, notices.Send},
		"OvertakenByItsAlert":         {[]func(*notices.Parcel){over, recovered, overtaken, alert}, notices.Mute},
		"TriedAfterAWindowAndNowOver": {[]func(*notices.Parcel){held, over, func(p *notices.Parcel) { p.Attempts = 1 }}, notices.Mute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdict, why := parcel(func(p *notices.Parcel) {
				for _, edit := range c.edits {
					edit(p)
				}
			}).Judge()
			require.Equal(t, c.want, verdict)
			require.Equal(t, verdict == notices.Mute || verdict == notices.GiveUp, why != "", "who looks it up is told why nobody was told: %q", why)
		})
	}
}

func TestWaitsGrowAndHeedTheReceiver(t *testing.T) {
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

func TestIDsAreReadAsTheyAreWritten(t *testing.T) {
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
