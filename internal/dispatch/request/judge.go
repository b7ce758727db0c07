package request

import (
	"context"
	"errors"
	"net/http"
	"time"

	"rubato/internal/budget"
	"rubato/internal/change"
	"rubato/internal/egress"
	"rubato/internal/runs"
	"rubato/internal/success"
)

// Exchange is the result of a request.
type Exchange struct {
	Answer egress.Response
	Err    error
	At     time.Time // when it ended, in database time

	budget *budget.Budget // for judging and redacting the answer
}

// judges reports whether the endpoint has rules that search its answers.
func (t *Target) judges() bool { return t.Rules != nil || t.Redact != nil }

// capture stores the redacted body, tail and content type in the outcome.
func (t *Target) capture(o *runs.Outcome, answer egress.Response, broken bool, b *budget.Budget) {
	o.ContentType = t.Redact.Value(answer.Header, "Content-Type", b)
	o.Truncated, o.Tail = answer.Truncated, t.Redact.Tail(answer.Tail, b)
	o.Body = t.Redact.Body(answer.Body, answer.Truncated || broken, b)
	// A replacement may be longer than the redacted text.
	if t.Redact != nil {
		if limit := t.Spec.MaxResponseKB << 10; len(o.Body) > limit {
			o.Body, o.Truncated = o.Body[:limit], true
		}
	}
}

// digest stores the digest of the compared part of an answer, and returns the compared members. It
// covers what redaction hides, so that redaction hides no change.
func (t *Target) digest(o *runs.Outcome, answer egress.Response, b *budget.Budget) (members []change.Member) {
	o.BodyDigest, members = t.Form.Digest(answer.Body, b)
	return members
}

// judge decides whether a complete answer is a success, and stores the reason. Its error text
// quotes only shown, the masked answer, and the body of the outcome. It returns the index of the
// broken rule, or -1.
func (t *Target) judge(ctx context.Context, o *runs.Outcome, x Exchange, shown egress.Response) int {
	switch {
	case t.unchanged(x.Answer):
		o.Status, o.Reason = runs.Succeeded, runs.NotModified
	case !t.Success.Match(x.Answer.StatusCode):
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
	if errors.Is(x.budget.Err(), budget.ErrEnded) {
		// The cancellation cause says more than a rule that was not judged.
		if status, reason := verdict(ctx, egress.Canceled); status != runs.TimedOut {
			o.Status, o.Reason, o.Error = status, reason, context.Cause(ctx).Error()
			return -1
		}
	}
	return broken
}

// judged returns an answer in the form that the rules read.
func judged(x Exchange) *success.Answer {
	return &success.Answer{
		Status:    x.Answer.StatusCode,
		Header:    x.Answer.Header,
		Body:      x.Answer.Body,
		Truncated: x.Answer.Truncated,
		Latency:   x.Answer.Phases.Total,
		Budget:    x.budget,
	}
}

const (
	stopHeader = "Rubato-Stop"
	maxStop    = 300 // bytes of the target's reason
)

// stop returns the reason why the target asks for no more calls, safe to show; empty if it does not
// ask. Only the target of the endpoint may ask, not the target of a redirect to another host. A 410
// is ignored if the endpoint defines it as a success.
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
