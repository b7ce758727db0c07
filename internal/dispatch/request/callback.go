package request

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"rubato/internal/budget"
	"rubato/internal/callbacks"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	"rubato/internal/signing"
)

// Report checks the report of a target about its suspended run, and returns the outcome that it
// gives the run; the outcome of a progress is zero. The error is an [errs.Unauthorized] for a wrong
// signature, and an [errs.Unavailable] without access to secrets.
func (c *Caller) Report(ctx context.Context, run *Run, r callbacks.Report, now time.Time) (runs.Outcome, error) {
	u, err := c.verifyReport(ctx, run, r, now)
	if err != nil || r.Status == callbacks.Progress {
		return runs.Outcome{}, err
	}
	return c.reportOutcome(ctx, u, run, r, now), nil
}

// verifyReport checks the signature of a report if the endpoint asks for one, and returns the
// secrets that its body must not show.
func (c *Caller) verifyReport(ctx context.Context, run *Run, r callbacks.Report, now time.Time) (runSecrets, error) {
	signed := run.Target.Spec.Async.Callback == endpoints.CallbackSigned
	if !signed && !run.Target.NeedsSecrets() {
		return runSecrets{}, nil
	}
	if c.cfg.Secrets == nil {
		return runSecrets{}, errs.New(errs.Unavailable, "", "this server has no access to secrets; set RUBATO_SECRET_KEYS")
	}
	set, err := c.cfg.Secrets.At(ctx, run.TenantID, run.SecretsVersion)
	if err != nil {
		return runSecrets{}, fmt.Errorf("reading the secrets for a report about run %s: %w", run.ID, err)
	}
	if signed {
		keys, err := set.SigningKeys(now)
		if err != nil {
			return runSecrets{}, fmt.Errorf("reading the signing keys for a report about run %s: %w", run.ID, err)
		}
		if err := signing.Verify(r.Header, r.Raw, keys, now); err != nil {
			return runSecrets{}, errs.New(errs.Unauthorized, "signature_invalid", "the report is not signed with a signing key of the tenant: "+err.Error())
		}
	}
	u := runSecrets{set: set}
	for _, name := range run.Target.Secrets {
		if value, err := set.Secret(name); err == nil { // A secret that was deleted meanwhile is not known.
			u.values = append(u.values, value)
		}
	}
	u.values = append(u.values, run.Target.Credentials...)
	return u, nil
}

// reportOutcome returns the outcome that a report gives its run. The body is judged and redacted
// like the body of an answer 202.
func (c *Caller) reportOutcome(ctx context.Context, u runSecrets, run *Run, r callbacks.Report, now time.Time) runs.Outcome {
	limit := run.Target.Spec.MaxResponseKB << 10
	head := r.Body[:min(len(r.Body), limit)]
	header := http.Header{}
	if len(r.Body) > 0 {
		header.Set("Content-Type", "application/json")
	}
	o, _ := c.outcome(ctx, u, run.Target, Exchange{
		At: now,
		Answer: egress.Response{
			StatusCode: http.StatusAccepted,
			Header:     header,
			Body:       bytes.Clone(head),
			BytesRead:  int64(len(r.Body)),
			Truncated:  len(r.Body) > limit,
		},
	})
	if r.Status == callbacks.Failed {
		o.Status, o.Reason = runs.Failed, runs.CallbackFailed
		o.Error = "the target reported that the run failed"
		if r.Error != "" {
			shown := secrets.NewMask(u.values...).Text(printable(r.Error, maxReported))
			o.Error = "the target reported: " + run.Target.Redact.Text(shown, budget.New(ctx.Done()))
		}
	}
	return o
}

// maxReported bounds the reported cause of a failure, in bytes.
const maxReported = 2000

// offerCallback adds the callback URL to the request of an asynchronous run. It is a credential: a
// redirect to another host drops it, and answers that echo it are masked.
func (c *Caller) offerCallback(r *Outgoing, run *Run) {
	if c.cfg.Callbacks == "" || run.Target.callbackKey == nil || run.Target.Spec.Async.Callback == endpoints.CallbackNone {
		return
	}
	token := callbacks.Token(run.Target.callbackKey, callbacks.Subject{
		EndpointID: run.EndpointID,
		RunID:      run.ID,
		Fence:      run.Fence,
	})
	r.Meta[callbacks.Header] = []string{c.cfg.Callbacks + callbacks.Path + token}
	r.Credentials = append(slices.Clip(r.Credentials), callbacks.Header)
	r.values = append(slices.Clip(r.values), token)
}
