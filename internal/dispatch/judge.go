package dispatch

import (
	"net/http"

	"rubato/internal/egress"
	"rubato/internal/runs"
	"rubato/internal/success"
)

// capture takes in what is kept of the body, without what is to be hidden. Nothing else of the body goes any further, the digest
// included: a digest of what was hidden could be compared with guesses.
func (t *Target) capture(o *runs.Outcome, answer egress.Response, broken bool) {
	o.ContentType = t.Redact.Value(answer.Header, "Content-Type")
	o.Truncated, o.Tail = answer.Truncated, t.Redact.Tail(answer.Tail)
	o.Body = t.Redact.Body(answer.Body, answer.Truncated || broken)
	if t.Redact != nil { // What stands in for something may be longer than it.
		if limit := t.Spec.MaxResponseKB << 10; len(o.Body) > limit {
			o.Body, o.Truncated = o.Body[:limit], true
		}
	}
	o.BodyDigest = runs.Digest(o.Body)
}

// judge says whether a complete answer is a success, and if not, why. What it says why is of the answer as it may be shown, whose body is that
// of the outcome.
func (t *Target) judge(o *runs.Outcome, answer, shown egress.Response) {
	switch {
	case t.unchanged(answer):
		o.Status, o.Reason = runs.Succeeded, runs.NotModified
	case !t.Success.Match(answer.StatusCode):
		o.Status, o.Reason = runs.Failed, runs.HTTPStatus
	default:
		o.Status, o.Reason = runs.Succeeded, runs.HTTPStatus
	}
	if t.Rules == nil || o.Status == runs.Failed {
		return
	}
	a, judge := judged(answer), (*success.Set).Judge
	if o.Reason == runs.NotModified {
		judge = (*success.Set).JudgeUnchanged
	}
	if broken := judge(t.Rules, a); broken >= 0 {
		o.Status, o.Reason = runs.Failed, runs.SuccessRuleFailed
		o.Error = t.Rules.Explain(broken, a.Shown(t.Redact.Header(shown.Header), o.Body))
	}
}

// judged returns an answer as rules look at it.
func judged(answer egress.Response) *success.Answer {
	return &success.Answer{
		Status: answer.StatusCode, Header: answer.Header, Body: answer.Body, Truncated: answer.Truncated, Latency: answer.Phases.Total,
	}
}

const (
	stopHeader = "Rubato-Stop"
	maxStop    = 300 // bytes of a reason that a target gives
)

// stop returns why the target wants no more calls, in words that are safe to show; empty where it says no such thing. Only the target that
// the endpoint names may say so: not the one that a redirect led to. A 410 that the user calls a success means something else.
func (t *Target) stop(answer egress.Response) string {
	values, asked := answer.Header[stopHeader]
	switch {
	case answer.Elsewhere:
		return ""
	case asked && values[0] != "":
		return "the target asked to stop: " + printable(t.Redact.Value(answer.Header, stopHeader), maxStop)
	case asked:
		return "the target asked to stop"
	case answer.StatusCode == http.StatusGone && !t.Success.Match(http.StatusGone):
		return "the target answered 410 (gone)"
	default:
		return ""
	}
}
