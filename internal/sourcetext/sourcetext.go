// Package sourcetext returns display texts for the rules that set a due time. The API returns names
// such as ai-interval; the console and the command line show these texts, so that both use the same
// ones.
package sourcetext

import (
	"strconv"

	"rubato/client"
)

// maxDoublings is the limit of the governor's backoff: 32 times the interval.
const maxDoublings = 5

// Source returns the text for a source or a rule of a decision. An unknown name is returned as it
// is.
func Source(name string) string {
	if words, known := map[string]string{
		"paused": "paused", "ai-oneshot": "one-shot hint", "ai-interval": "interval hint", "change-rate": "rate of change", "baseline-cron": "cron", "baseline-interval": "interval",
		"clamped-min": "shortest interval", "clamped-max": "longest interval", "retry-after": "the target asked to wait", "target": "the target asked for it", "circuit-open": "the host's circuit was open", "ended": "the schedule has ended", "manual": "asked for", "call": "a call",
		"retry": "another attempt", "infra-retry": "another run after a loss", "queued": "it waited for a run to end", "overrun": "its time had passed", "jitter": "jitter", "not-before-now": "not before now",
	}[name]; known {
		return words
	}
	return name
}

// Next returns the text for the rule that set an endpoint's next due time; empty if it has none. A
// hint is shown with its author, and an interval with its backoff.
func Next(e client.Endpoint) string {
	if e.NextSource == nil {
		return ""
	}
	switch *e.NextSource {
	case client.SourceAiInterval:
		if h := e.Hints.Interval; h != nil {
			return "hint by " + h.Author
		}
	case client.SourceAiOneshot:
		if h := e.Hints.OneShot; h != nil {
			return "one-shot hint by " + h.Author
		}
	case client.SourceBaselineInterval:
		if e.FailureCount > 0 {
			return backoff(e)
		}
	case client.SourceClampedMax:
		if e.FailureCount > 0 && e.BaselineIntervalMs != nil && e.Hints.Interval == nil {
			return "longest interval, " + backoff(e)
		}
	default:
	}
	return Source(string(*e.NextSource))
}

// backoff returns the text for the factor of an endpoint's backoff.
func backoff(e client.Endpoint) string {
	return "backoff x" + strconv.Itoa(1<<min(e.FailureCount, maxDoublings))
}
