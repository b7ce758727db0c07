package dispatch

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/oauth2"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	"rubato/internal/template"
)

const (
	// sendLimit is the longest time between the statement that started a run and the first byte of
	// its request. After it nothing is sent, because the process must have been suspended, and the
	// endpoint may have been paused or changed meanwhile.
	sendLimit = time.Second
	// tokenLimit extends sendLimit for a run that had to wait for an access token.
	tokenLimit = 10 * time.Second
)

// outgoing is a request that is ready to be sent, with the secrets that it holds.
type outgoing struct {
	egress.Request
	runSecrets

	// grant is the grant of its access token; nil: it carries none.
	grant *oauth2.Grant
	token string
}

// prepare returns the request of a run. If the request cannot be sent, or not in time, it returns
// the outcome of the run.
func (c *calls) prepare(ctx context.Context, b *waiting, s Started, sent time.Time) (outgoing, *runs.Outcome) {
	r, refusal := c.build(ctx, b, s, sent)
	if refusal != nil {
		return outgoing{}, refusal
	}
	limit := sendLimit
	if r.grant != nil {
		limit += tokenLimit
	}
	if late := time.Since(sent); late > limit {
		return outgoing{}, &runs.Outcome{
			Status: runs.Skipped, Reason: runs.StartExpired,
			Error: fmt.Sprintf("nothing was sent: the worker stood still for %s after the start", late.Round(time.Millisecond)),
		}
	}
	return r, nil
}

// build returns the request of a run, or the outcome of the run if the request cannot be built.
// sent is when the start was sent: the execution limit counts from there.
func (c *calls) build(ctx context.Context, b *waiting, s Started, sent time.Time) (outgoing, *runs.Outcome) {
	r, refusal := c.compose(ctx, b, s, sent)
	if refusal != nil {
		return outgoing{}, refusal
	}
	c.offerCallback(&r, b, s)
	if err := c.sign(&r.Request, b, s, r.runSecrets); err != nil {
		return outgoing{}, requestFailed(runs.SigningFailed, err)
	}
	return r, nil
}

// compose is build without callback URL and signature.
func (c *calls) compose(ctx context.Context, b *waiting, s Started, sent time.Time) (outgoing, *runs.Outcome) {
	key, refusal := c.readSecrets(ctx, b, s)
	if refusal != nil {
		return outgoing{}, refusal
	}
	r := outgoing{Request: request(b, s), runSecrets: key}
	r.values = append(r.values, b.target.Credentials...)
	if c.allowances != nil {
		r.Allowance = c.allowances.Of(b.target.TenantID)
	}
	if b.target.Template != nil {
		if err := r.fill(b, s); err != nil {
			return outgoing{}, requestFailed(runs.TemplateFailed, err)
		}
	}
	if r.grant != nil {
		if refusal := c.authorize(ctx, b, &r, b.target.Spec.MaxExecutionTime-time.Since(sent)); refusal != nil {
			return outgoing{}, refusal
		}
	}
	return r, nil
}

// requestFailed returns the outcome of a run after its request could not be built. If this worker
// lacks the key of a secret, the run is skipped, because that is no fault of the endpoint.
func requestFailed(reason runs.Reason, err error) *runs.Outcome {
	if errors.Is(err, secrets.ErrUnreadable) {
		return &runs.Outcome{
			Status: runs.Skipped,
			Reason: runs.SecretsUnavailable,
			Error:  "nothing was sent: " + err.Error(),
		}
	}
	return &runs.Outcome{
		Status: runs.Failed,
		Reason: reason,
		Error:  "nothing was sent: " + err.Error(),
	}
}

// givenUp returns the outcome of a run that was canceled, or that the worker's shutdown ended,
// before its request was built. It returns nil if neither happened.
func givenUp(ctx context.Context, before string) *runs.Outcome {
	cause := context.Cause(ctx)
	if canceled, is := errors.AsType[*canceledError](cause); is {
		return new(canceledUnsent(canceled))
	}
	if errors.Is(cause, errShutdown) {
		return &runs.Outcome{
			Status: runs.Lost,
			Reason: runs.Shutdown,
			Error:  "nothing was sent: the worker stopped before " + before,
		}
	}
	return nil
}

// request builds the configured request of a run, with Rubato's own header fields in Meta.
func request(b *waiting, s Started) egress.Request {
	spec := b.target.Spec
	id := s.RunID.String()
	key := id
	// The idempotency key is the same for every attempt of one due time, and for a rerun if that
	// was asked for.
	if b.claim.Attempt != 1 || b.claim.InfraAttempt > 0 {
		key = runs.FirstAttempt(b.claim.Slot, b.claim.Endpoint()).String()
	}
	switch {
	case spec.StartsChain():
		// A further attempt is another run of the chain, unless infrastructure lost the last one.
		key = runs.NewID(b.claim.Slot, b.claim.Endpoint(), b.claim.Attempt, 0).String()
	case b.target.SentKey != "":
		key = b.target.SentKey
	}
	trace := hex.EncodeToString(s.RunID[:])
	// One allocation for all values. The third index bounds the capacity of each, so that an append
	// to one header does not overwrite the next.
	values := [...]string{
		id, strconv.Itoa(b.claim.Attempt), b.claim.Slot.UTC().Format("2006-01-02T15:04:05.000Z"), strconv.FormatInt(b.claim.Token, 10),
		key, "00-" + trace + "-" + trace[16:] + "-01",
	}
	return egress.Request{
		Tenant: b.target.TenantID,
		Method: spec.Method,
		URL:    b.target.URL,
		Header: b.target.Header,
		Meta: http.Header{
			"Rubato-Run-Id":        values[0:1:1],
			"Rubato-Attempt":       values[1:2:2],
			"Rubato-Scheduled-For": values[2:3:3],
			"Rubato-Fence":         values[3:4:4],
			"Idempotency-Key":      values[4:5:5],
			"Traceparent":          values[5:6:6],
		},
		Body:         []byte(spec.Body),
		Timeout:      spec.Timeout,
		MaxBody:      int64(spec.MaxResponseKB) << 10,
		MaxTail:      int64(spec.ResponseTailKB) << 10,
		MaxRedirects: spec.FollowRedirects,
		TLS:          tlsOf(spec.TLS),
	}
}

// fill renders the templates of the endpoint into the request of a run.
func (r *outgoing) fill(b *waiting, s Started) error {
	shaped, err := b.target.Template.Render(valuesOf(b, s, r.set))
	if err != nil {
		return err
	}
	r.URL, r.Body, r.Credentials = shaped.URL, []byte(shaped.Body), slices.Clip(b.target.Template.Credentials())
	r.Header = owned(r.Header, len(shaped.Header))
	for name, value := range shaped.Header {
		r.Header[name] = []string{value}
	}
	r.values = append(r.values, shaped.Sensitive...)
	if r.TLS != nil && shaped.ClientKey != "" {
		r.TLS.ClientKey = shaped.ClientKey
	}
	if g := shaped.OAuth2; g != nil {
		r.grant = &oauth2.Grant{
			TenantID:     s.TenantID,
			TokenURL:     g.TokenURL,
			ClientID:     g.ClientID,
			ClientSecret: g.ClientSecret,
			Audience:     g.Audience,
			Scopes:       g.Scopes,
			Allowance:    r.Allowance,
		}
		if r.TLS != nil && sameHost(g.TokenURL, r.URL) {
			r.grant.TLS = r.TLS
		}
	}
	return nil
}

// owned returns a copy of a header with room for more fields. A run changes only the copy, because
// all runs of an endpoint share the configured header. That header may be nil.
func owned(header http.Header, more int) http.Header {
	own := make(http.Header, len(header)+more)
	maps.Copy(own, header)
	return own
}

// valuesOf returns the values that the templates of a run may use.
func valuesOf(b *waiting, s Started, set *secrets.Set) *template.Values {
	spec := b.target.Spec
	return &template.Values{
		Run: template.Run{
			ID:           s.RunID.String(),
			Attempt:      b.claim.Attempt,
			ScheduledFor: cmp.Or(b.target.DueFor, b.claim.Slot),
		},
		Endpoint: template.Endpoint{
			ID:     endpoints.ID(b.claim.Endpoint()).String(),
			Name:   spec.Name,
			Key:    spec.Key,
			Labels: spec.Labels,
		},
		Last:    s.Last,
		Secrets: set,
	}
}

// authorize adds an access token to a request. If none is available in time, it returns the outcome
// of the run.
func (c *calls) authorize(ctx context.Context, b *waiting, r *outgoing, left time.Duration) *runs.Outcome {
	limited, cancel := context.WithTimeout(ctx, min(tokenLimit, left))
	defer cancel()
	token, err := c.token(limited, b, *r.grant)
	if ended := givenUp(ctx, "there was an access token"); ended != nil {
		return ended
	}
	if err != nil {
		return requestFailed(runs.AuthFailed, err)
	}
	r.Header["Authorization"] = []string{"Bearer " + token}
	r.token, r.values = token, append(r.values, token)
	return nil
}

// token returns an access token. If none is cached, the run releases its host slot while it waits,
// because the token server may be at the same host, and runs that wait for the token could hold all
// of its slots.
func (c *calls) token(ctx context.Context, b *waiting, g oauth2.Grant) (string, error) {
	atOnce, cancel := context.WithCancel(ctx)
	cancel() // With it the cache returns only a token that it has.
	if token, err := c.tokens.Token(atOnce, g); err == nil {
		return token, nil
	}
	b.Release()
	return c.tokens.Token(ctx, g)
}

// forgetRefusedToken drops an access token from the cache if the target refused it, so that the
// next run gets another one. An answer from another host after a redirect says nothing about the
// token, because that host did not get it.
func (c *calls) forgetRefusedToken(r outgoing, answer egress.Response) {
	if r.grant != nil && answer.StatusCode == http.StatusUnauthorized && !answer.Elsewhere {
		c.tokens.Reject(*r.grant, r.token)
	}
}
