// Package sourcetext says in words what set a due time. The API names sources, such as ai-interval; screens and tables show these words.
package sourcetext

import (
	"strconv"

	"rubato/client"
)

// maxDoublings is the limit of the governor's backoff: 32 times the interval.
const maxDoublings = 5

// Source returns the words for a source or a rule of a decision. A name that has no words is returned as it is.
func Source(name string) string {
	if words, known := map[string]string{
		"paused": "paused", "ai-oneshot": "one-shot hint", "ai-interval": "interval hint", "baseline-cron": "cron", "baseline-interval": "interval",
		"clamped-min": "shortest interval", "clamped-max": "longest interval", "retry-after": "the target asked to wait", "manual": "asked for",
		"retry": "another attempt", "infra-retry": "another run after a loss", "overrun": "its time had passed", "jitter": "jitter", "not-before-now": "not before now",
	}[name]; known {
		return words
	}
	return name
}

// Next returns the words for what set the next due time of an endpoint, empty if it has none. A hint is named with its author, and the
// interval with its backoff.
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

// backoff names the factor by which failures in a row stretch the interval of an endpoint.
func backoff(e client.Endpoint) string {
	return "backoff x" + strconv.Itoa(1<<min(e.FailureCount, maxDoublings))
}
