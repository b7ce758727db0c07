package request

import (
	"context"
	"errors"
	"net/http"
	"time"

	"rubato/internal/budget"
	"rubato/internal/egress"
	"rubato/internal/runs"
	"rubato/internal/secrets"
)

// largeAnswer is the size in bytes above which the search for secrets in an answer and its digest
// need the judging semaphore.
const largeAnswer = 64 << 10

// Outcome classifies the exchange of a request within a budget, and waits for the judging semaphore
// until ctx ends. It hides the secrets of the request, because a target may echo them.
func (c *Caller) Outcome(ctx context.Context, r *Outgoing, t *Target, x Exchange) runs.Outcome {
	o, _ := c.outcome(ctx, r.runSecrets, t, x)
	return o
}

// outcome classifies an Exchange and hides the secrets of the run, because a target may echo its
// request. It works within a budget, and waits for the judging semaphore until ctx ends. broken is
// the index of the success rule that the answer breaks, or -1.
func (c *Caller) outcome(ctx context.Context, u runSecrets, t *Target, x Exchange) (o runs.Outcome, broken int) {
	x.budget = budget.New(ctx.Done())
	if size := len(x.Answer.Body) + len(x.Answer.Tail); t.judges() || size > largeAnswer {
		release, err := c.judging.acquire(ctx, t.TenantID, size)
		if err == nil {
			defer release()
		} else {
			x.budget = budget.Ended(err)
		}
	}
	u.mask = secrets.NewMask(u.values...)
	o, broken = u.classify(ctx, t, x)
	return u.hide(o), broken
}

// classify is outcome without the final search for secrets; only outcome calls it. It judges the
// original answer. It stores and quotes the masked answer, because the rest of a secret that was
// partly redacted, or escaped in a quotation, is hard to find.
func (u runSecrets) classify(ctx context.Context, t *Target, x Exchange) (o runs.Outcome, broken int) {
	answer := x.Answer
	o = runs.Outcome{
		StatusCode:    answer.StatusCode,
		Phases:        PhasesOf(answer.Phases),
		ResponseBytes: answer.BytesRead,
		MaybeSent:     true,
	}
	fault, failed := errors.AsType[*egress.Error](x.Err)
	masked := u.masked(answer)
	t.capture(&o, masked, failed, x.budget)
	if failed {
		o.Phases = PhasesOf(fault.Phases)
		o.MaybeSent = fault.Sent
		o.Error = t.Redact.Text(u.mask.Text(fault.Error()), x.budget)
		o.Status, o.Reason = verdict(ctx, fault.Reason)
		if o.Status == runs.Canceled {
			// The cause names the author and the reason of the cancel request.
			o.Error = context.Cause(ctx).Error()
		}
		t.digest(&o, masked, x.budget)
		return o, -1
	}
	u.agree(&o, t, x)
	broken = t.judge(ctx, &o, x, masked)
	members := t.digest(&o, masked, x.budget)
	t.searchNoise(&o, x, members)
	o.Stop = t.stop(masked, x.budget)
	o.Validators = t.validators(o, x)
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable {
		if at, asked := egress.RetryAfter(answer.Header, x.At); asked {
			o.RetryAfter = at.UTC().Truncate(time.Millisecond)
		}
	}
	t.followHeaders(&o, x)
	return o, broken
}

// verdict maps the class of a failed call to a status and a reason. For a canceled call, the cause
// of the context decides.
func verdict(ctx context.Context, reason egress.Reason) (runs.Status, runs.Reason) {
	switch reason {
	case egress.Late:
		return runs.Skipped, runs.StartExpired
	case egress.Timeout:
		return runs.TimedOut, runs.Timeout
	case egress.Canceled:
		if _, is := errors.AsType[*CanceledError](context.Cause(ctx)); is {
			return runs.Canceled, runs.CanceledByUser
		}
		if errors.Is(context.Cause(ctx), ErrShutdown) {
			return runs.Lost, runs.Shutdown
		}
		return runs.TimedOut, runs.Timeout
	case egress.DNSError, egress.ConnectError, egress.TLSError, egress.EgressDenied, egress.ProtocolError, egress.ResponseTooLarge, egress.ConnectionLost,
		egress.RedirectLimit, egress.RedirectDenied:
		// Both packages share these codes; a test compares them.
		return runs.Failed, runs.Reason(reason)
	default:
		return runs.Lost, runs.InternalError
	}
}

// PhasesOf returns the phases of an exchange in the form of a run.
func PhasesOf(p egress.Phases) runs.Phases {
	return runs.Phases{
		DNS:      p.DNS,
		Connect:  p.Connect,
		TLS:      p.TLS,
		Wait:     p.Wait,
		Transfer: p.Transfer,
	}
}
