package dispatch

import (
	"context"
	"errors"
	"net/http"
	"time"

	"rubato/internal/budget"
	"rubato/internal/egress"
	"rubato/internal/runs"
	"rubato/internal/success"
)

// exchange is how a request went, with what may be spent on its answer.
type exchange struct {
	answer egress.Response
	err    error
	at     time.Time      // when it ended, in database time
	budget *budget.Budget // of judging and redacting the answer
}

// judges reports whether answers are searched by rules of the endpoint.
func (t *Target) judges() bool { return t.Rules != nil || t.Redact != nil }

// capture takes in what is kept of the body, without what is to be hidden. Nothing else of the body goes any further, the digest
// included: a digest of what was hidden could be compared with guesses.
func (t *Target) capture(o *runs.Outcome, answer egress.Response, broken bool, b *budget.Budget) {
	o.ContentType = t.Redact.Value(answer.Header, "Content-Type", b)
	o.Truncated, o.Tail = answer.Truncated, t.Redact.Tail(answer.Tail, b)
	o.Body = t.Redact.Body(answer.Body, answer.Truncated || broken, b)
	if t.Redact != nil { // What stands in for something may be longer than it.
		if limit := t.Spec.MaxResponseKB << 10; len(o.Body) > limit {
			o.Body, o.Truncated = o.Body[:limit], true
		}
	}
	o.BodyDigest = runs.Digest(o.Body)
}

// judge says whether a complete answer is a success, and if not, why. What it says why is of the answer as it may be shown, whose body is that
// of the outcome. It returns the index of the rule that is broken, or -1.
func (t *Target) judge(ctx context.Context, o *runs.Outcome, x exchange, shown egress.Response) int {
	switch {
	case t.unchanged(x.answer):
		o.Status, o.Reason = runs.Succeeded, runs.NotModified
	case !t.Success.Match(x.answer.StatusCode):
		o.Status, o.Reason = runs.Failed, runs.HTTPStatus
	default:
		o.Status, o.Reason = runs.Succeeded, runs.HTTPStatus
	}
	if t.Rules == nil || o.Status == runs.Failed {
		return -1
	}
	a, judge := judged(x), (*success.Set).Judge
	if o.Reason == runs.NotModified {
		judge = (*success.Set).JudgeUnchanged
	}
	broken := judge(t.Rules, a)
	if broken < 0 {
		return broken
	}
	o.Status, o.Reason = runs.Failed, runs.SuccessRuleFailed
	o.Error = t.Rules.Explain(broken, a.Shown(t.Redact.Header(shown.Header, x.budget), o.Body))
	if errors.Is(x.budget.Err(), budget.ErrEnded) { // What ended the run says more than the rule that was not judged.
		if status, reason := verdict(ctx, egress.Canceled); status != runs.TimedOut {
			o.Status, o.Reason, o.Error = status, reason, context.Cause(ctx).Error()
			return -1
		}
	}
	return broken
}

// judged returns an answer as rules look at it.
func judged(x exchange) *success.Answer {
	return &success.Answer{
		Status: x.answer.StatusCode, Header: x.answer.Header, Body: x.answer.Body, Truncated: x.answer.Truncated,
		Latency: x.answer.Phases.Total, Budget: x.budget,
	}
}

const (
	stopHeader = "Rubato-Stop"
	maxStop    = 300 // bytes of a reason that a target gives
)

// stop returns why the target wants no more calls, in words that are safe to show; empty where it says no such thing. Only the target that
// the endpoint names may say so: not the one that a redirect led to. A 410 that the user calls a success means something else.
func (t *Target) stop(answer egress.Response, b *budget.Budget) string {
	values, asked := answer.Header[stopHeader]
	switch {
	case answer.Elsewhere:
		return ""
	case asked && values[0] != "":
		return "the target asked to stop: " + printable(t.Redact.Value(answer.Header, stopHeader, b), maxStop)
	case asked:
		return "the target asked to stop"
	case answer.StatusCode == http.StatusGone && !t.Success.Match(http.StatusGone):
		return "the target answered 410 (gone)"
	default:
		return ""
	}
}
