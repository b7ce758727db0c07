package dispatch

import (
	"context"
	"errors"
	"net/http"
	"time"

	"rubato/internal/egress"
	"rubato/internal/runs"
	"rubato/internal/secrets"
)

// outcome says what an exchange means, without the secrets that the run used: a target may echo what it was sent. now is database time,
// for the instant that a Retry-After names.
func (u unlocked) outcome(ctx context.Context, t *Target, answer egress.Response, err error, now time.Time) runs.Outcome {
	u.mask = secrets.NewMask(u.values...)
	return u.hide(u.classify(ctx, t, answer, err, now))
}

// classify is outcome before the last search for secrets; nobody else calls it. The answer is judged as it came. What is kept of it and said
// about it is of the answer without the secrets: of one that patterns hide in part, or that a quotation escapes, the rest is hard to find.
func (u unlocked) classify(ctx context.Context, t *Target, answer egress.Response, err error, now time.Time) runs.Outcome {
	o := runs.Outcome{
		StatusCode:    answer.StatusCode,
		Phases:        phases(answer.Phases),
		ResponseBytes: answer.BytesRead,
		MaybeSent:     true,
	}
	fault, failed := errors.AsType[*egress.Error](err)
	masked := u.masked(answer)
	t.capture(&o, masked, failed)
	if failed {
		o.Phases = phases(fault.Phases)
		o.MaybeSent = fault.Sent
		o.Error = t.Redact.Text(u.mask.Text(fault.Error()))
		o.Status, o.Reason = verdict(ctx, fault.Reason)
		if o.Status == runs.Canceled {
			o.Error = context.Cause(ctx).Error() // Who and why says more than where.
		}
		return o
	}
	u.agree(&o, t, answer)
	t.judge(&o, answer, masked)
	o.Stop = t.stop(masked)
	o.Validators = t.validators(o, answer)
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable {
		if at, asked := egress.RetryAfter(answer.Header, now); asked {
			o.RetryAfter = at.UTC().Truncate(time.Millisecond)
		}
	}
	return o
}

// verdict maps the class of a failed call. A call that was given up says why in its context.
func verdict(ctx context.Context, reason egress.Reason) (runs.Status, runs.Reason) {
	switch reason {
	case egress.Late:
		return runs.Skipped, runs.StartExpired
	case egress.Timeout:
		return runs.TimedOut, runs.Timeout
	case egress.Canceled:
		if _, is := errors.AsType[*canceledError](context.Cause(ctx)); is {
			return runs.Canceled, runs.CanceledByUser
		}
		if errors.Is(context.Cause(ctx), errShutdown) {
			return runs.Lost, runs.Shutdown
		}
		return runs.TimedOut, runs.Timeout
	case egress.DNSError, egress.ConnectError, egress.TLSError, egress.EgressDenied, egress.ProtocolError, egress.ResponseTooLarge, egress.ConnectionLost,
		egress.RedirectLimit, egress.RedirectDenied:
		return runs.Failed, runs.Reason(reason) // Both packages use the field's standard codes; a test holds them together.
	default:
		return runs.Lost, runs.InternalError
	}
}

func phases(p egress.Phases) runs.Phases {
	return runs.Phases{DNS: p.DNS, Connect: p.Connect, TLS: p.TLS, Wait: p.Wait, Transfer: p.Transfer}
}
