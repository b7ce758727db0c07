package dispatch

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

// Secrets knows the secrets of tenants.
type Secrets interface {
	// At returns the secrets of a tenant at a version or a later one.
	At(ctx context.Context, tenant [16]byte, version int64) (*secrets.Set, error)
	// Used notes that a run of an endpoint used secrets.
	Used(tenant [16]byte, names []string, endpoint [16]byte)
}

// secretsWait is how long a run waits for the secrets of its tenant: past it the request would be late, see sendLimit.
const secretsWait = sendLimit

// errNoVault is why a worker without secrets of tenants cannot send.
var errNoVault = errors.New("this worker knows no secrets")

// unlocked is what a run knows that nobody else may: the secrets of its tenant, and how to hide those that it uses. The zero value, of
// a run that uses none, hides nothing.
type unlocked struct {
	set    *secrets.Set
	values []string      // what the run uses, and what was made of it
	mask   *secrets.Mask // of the values, once the answer is there; nil: hides nothing
}

// unlock returns what a run may know, or how the run ends because that cannot be read. It asks nobody for a run that needs nothing.
func (c *calls) unlock(ctx context.Context, b *waiting, s Started) (unlocked, *runs.Outcome) {
	if !b.target.unlocks() {
		return unlocked{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, secretsWait)
	defer cancel()
	set, err := c.secretsAt(ctx, s)
	if err != nil {
		c.logger.Warn("a run is not sent, for want of the secrets of its tenant", "run_id", s.RunID.String(), "error", err)
		if ended := givenUp(ctx, "it had the secrets of its tenant"); ended != nil {
			return unlocked{}, ended
		}
		return unlocked{}, withoutSecrets(err)
	}
	var values []string
	for _, name := range b.target.Secrets {
		if value, err := set.Secret(name); err == nil { // Whoever needs a missing one says so.
			values = append(values, value)
		}
	}
	c.secrets.Used(s.TenantID, b.target.Secrets, s.EndpointID)
	return unlocked{set: set, values: values}, nil
}

// withoutSecrets returns how a run ends whose secrets could not be read. If the database did not give them in time, the start has
// expired: an infrastructure attempt may find a database that does.
func withoutSecrets(err error) *runs.Outcome {
	if errors.Is(err, errNoVault) {
		return &runs.Outcome{Status: runs.Skipped, Reason: runs.SecretsUnavailable, Error: "nothing was sent: " + err.Error()}
	}
	return &runs.Outcome{
		Status: runs.Skipped, Reason: runs.StartExpired,
		Error: fmt.Sprintf("nothing was sent: the secrets could not be read from the database within %s of the start", secretsWait),
	}
}

func (c *calls) secretsAt(ctx context.Context, s Started) (*secrets.Set, error) {
	if c.secrets == nil {
		return nil, errNoVault
	}
	return c.secrets.At(ctx, s.TenantID, s.SecretsVersion)
}

// sign adds the proof of who sends the request, where the endpoint asks for it. The request must be as it will be sent.
func (c *calls) sign(r *egress.Request, b *waiting, s Started, u unlocked) error {
	if !b.target.Spec.Sign {
		return nil
	}
	now, known := c.now() // Database time: receivers refuse what is old, whatever this process takes the time to be.
	if !known {
		now = s.StartedAt
	}
	keys, err := u.set.SigningKeys(now)
	if err != nil {
		return err
	}
	proof, err := signing.Sign(signing.Message{ID: s.RunID.String(), At: now.Round(0).Truncate(time.Second), Body: r.Body}, keys)
	if err != nil {
		return fmt.Errorf("signing the request: %w", err)
	}
	r.Header = owned(r.Header, len(proof)) // Not Meta: a redirect to another host drops credentials of these only.
	maps.Copy(r.Header, proof)
	return nil
}

// without returns a text that holds nothing of what a mask hides, or nothing.
func without(mask *secrets.Mask, text string) string {
	if mask.Text(text) != text {
		return ""
	}
	return text
}

// masked returns an answer without the secrets that the run used. The answer itself stays as it is.
func (u unlocked) masked(answer egress.Response) egress.Response {
	if u.mask == nil {
		return answer
	}
	answer.Body, answer.Tail = u.mask.Body(answer.Body, true), u.mask.Tail(answer.Tail) // Where a body ends, a target or a connection may have cut it.
	answer.Header = maskedHeader(u.mask, answer.Header)
	return answer
}

// agree hides all of a complete body where it matters whether secrets or what the endpoint wants hidden were looked for first: a pattern that
// finds a part of a secret leaves the rest of it, and one that finds more than a secret finds nothing once that is hidden.
func (u unlocked) agree(o *runs.Outcome, t *Target, x exchange) {
	if u.mask == nil || t.Redact == nil || x.answer.Truncated {
		return
	}
	var other runs.Outcome
	t.capture(&other, x.answer, false, x.budget)
	if !bytes.Equal(u.mask.Body(o.Body, true), u.mask.Body(other.Body, true)) {
		o.Body = []byte(redact.Mask)
		o.BodyDigest = runs.Digest(o.Body)
	}
}

// maskedHeader returns a header without what a mask hides. It is a copy.
func maskedHeader(mask *secrets.Mask, header http.Header) http.Header {
	hidden := make(http.Header, len(header))
	for name, values := range header {
		for _, value := range values {
			hidden[name] = append(hidden[name], mask.Text(value))
		}
	}
	return hidden
}

// hide returns an outcome without the secrets that the run used, whatever was made of the answer.
func (u unlocked) hide(o runs.Outcome) runs.Outcome {
	if u.mask == nil {
		return o
	}
	o.Body, o.Tail = u.mask.Body(o.Body, true), u.mask.Tail(o.Tail)
	o.BodyDigest = runs.Digest(o.Body)
	o.Stop = u.mask.Text(o.Stop)
	o.Error = u.mask.Text(o.Error)
	o.ContentType = u.mask.Text(o.ContentType)
	if v := o.Validators; v != nil { // They are kept in the clear. A part of one is of no use to anybody.
		o.Validators = &runs.Validators{ETag: without(u.mask, v.ETag), LastModified: without(u.mask, v.LastModified), Request: v.Request}
	}
	return o
}
