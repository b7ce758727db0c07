package request

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"rubato/internal/egress"
	"rubato/internal/redact"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	"rubato/internal/signing"
)

// Secrets is the cache of the tenants' secrets.
type Secrets interface {
	// At returns the secrets of a tenant at this version or a later one.
	At(ctx context.Context, tenant [16]byte, version int64) (*secrets.Set, error)
	// Used records that a run of an endpoint used secrets.
	Used(tenant [16]byte, names []string, endpoint [16]byte)
}

// secretsWait is the timeout for reading the secrets of a run's tenant. A longer wait would be
// useless, because the request would exceed SendLimit.
const secretsWait = SendLimit

// errNoSecrets reports that this worker was configured without access to secrets.
var errNoSecrets = errors.New("this worker knows no secrets")

// runSecrets holds the secrets of a run's tenant, and the mask that hides the used ones in its
// record. The zero value belongs to a run without secrets, and hides nothing.
type runSecrets struct {
	set *secrets.Set
	// values are the secrets that the run uses, and values derived from them.
	values []string
	// mask hides the values. It is built when the answer has arrived; nil: it hides nothing.
	mask *secrets.Mask
}

// readSecrets returns the secrets of a run's tenant, or the outcome of the run if they cannot be
// read. For a run without secrets it reads nothing.
func (c *Caller) readSecrets(ctx context.Context, run *Run) (runSecrets, *runs.Outcome) {
	if !run.Target.NeedsSecrets() {
		return runSecrets{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, secretsWait)
	defer cancel()
	set, err := c.secretsAt(ctx, run)
	if err != nil {
		c.cfg.Logger.Warn("read tenant secrets failed; the request is not sent", "run_id", run.ID.String(), "error", err)
		if ended := givenUp(ctx, "it had the secrets of its tenant"); ended != nil {
			return runSecrets{}, ended
		}
		return runSecrets{}, withoutSecrets(err)
	}
	var values []string
	for _, name := range run.Target.Secrets {
		// A missing secret is an error of the template or of the signature that uses it, not here.
		if value, err := set.Secret(name); err == nil {
			values = append(values, value)
		}
	}
	c.cfg.Secrets.Used(run.TenantID, run.Target.Secrets, run.EndpointID)
	return runSecrets{set: set, values: values}, nil
}

// withoutSecrets returns the outcome of a run after its secrets could not be read. If the database
// did not return them in time, the reason is start_expired, so that an infrastructure attempt
// follows.
func withoutSecrets(err error) *runs.Outcome {
	if errors.Is(err, errNoSecrets) {
		return &runs.Outcome{
			Status: runs.Skipped,
			Reason: runs.SecretsUnavailable,
			Error:  "nothing was sent: " + err.Error(),
		}
	}
	return &runs.Outcome{
		Status: runs.Skipped, Reason: runs.StartExpired,
		Error: fmt.Sprintf("nothing was sent: the secrets could not be read from the database within %s of the start", secretsWait),
	}
}

func (c *Caller) secretsAt(ctx context.Context, run *Run) (*secrets.Set, error) {
	if c.cfg.Secrets == nil {
		return nil, errNoSecrets
	}
	return c.cfg.Secrets.At(ctx, run.TenantID, run.SecretsVersion)
}

// sign adds the signature headers if the endpoint wants them. It must come after every other change
// of the request, because the signature covers the body.
func (c *Caller) sign(r *egress.Request, run *Run, u runSecrets) error {
	if !run.Target.Spec.Sign {
		return nil
	}
	// Database time, because receivers refuse old signatures, and this process's clock may be
	// wrong.
	now, known := c.cfg.Now()
	if !known {
		now = run.StartedAt
	}
	keys, err := u.set.SigningKeys(now)
	if err != nil {
		return err
	}
	proof, err := signing.Sign(signing.Message{
		ID:   run.ID.String(),
		At:   now.Round(0).Truncate(time.Second),
		Body: r.Body,
	}, keys)
	if err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	// Not in Meta, because a redirect to another host drops credentials from Header only.
	r.Header = owned(r.Header, len(proof))
	maps.Copy(r.Header, proof)
	return nil
}

// without returns a text unchanged, or empty if it holds a secret that the mask hides.
func without(mask *secrets.Mask, text string) string {
	if mask.Text(text) != text {
		return ""
	}
	return text
}

// masked returns a copy of an answer without the secrets that the run used.
func (u runSecrets) masked(answer egress.Response) egress.Response {
	if u.mask == nil {
		return answer
	}
	// true, because the target or a broken connection may have cut the body inside a secret.
	answer.Body, answer.Tail = u.mask.Body(answer.Body, true), u.mask.Tail(answer.Tail)
	answer.Header = maskedHeader(u.mask, answer.Header)
	return answer
}

// agree hides the whole of a complete body if the result depends on the order of the two masks:
// that of the secrets and that of the endpoint's redaction rules. A pattern that matches a part of
// a secret would leave the rest of it. A pattern that matches more than a secret would no longer
// match after the secret is hidden.
func (u runSecrets) agree(o *runs.Outcome, t *Target, x Exchange) {
	if u.mask == nil || t.Redact == nil || x.Answer.Truncated {
		return
	}
	var other runs.Outcome
	t.capture(&other, x.Answer, false, x.budget)
	if !bytes.Equal(u.mask.Body(o.Body, true), u.mask.Body(other.Body, true)) {
		o.Body = []byte(redact.Mask)
	}
}

// maskedHeader returns a copy of a header without the secrets that the mask hides.
func maskedHeader(mask *secrets.Mask, header http.Header) http.Header {
	hidden := make(http.Header, len(header))
	for name, values := range header {
		for _, value := range values {
			hidden[name] = append(hidden[name], mask.Text(value))
		}
	}
	return hidden
}

// hide returns an outcome without the secrets that the run used, in every field that is made from
// the answer.
func (u runSecrets) hide(o runs.Outcome) runs.Outcome {
	if u.mask == nil {
		return o
	}
	o.Body, o.Tail = u.mask.Body(o.Body, true), u.mask.Tail(o.Tail)
	o.Stop = u.mask.Text(o.Stop)
	o.Error = u.mask.Text(o.Error)
	o.ContentType = u.mask.Text(o.ContentType)
	// Validators are stored in the clear. One that holds a secret is dropped, because a masked
	// validator would match nothing.
	if v := o.Validators; v != nil {
		o.Validators = &runs.Validators{
			ETag:         without(u.mask, v.ETag),
			LastModified: without(u.mask, v.LastModified),
			Request:      v.Request,
		}
	}
	return o
}
