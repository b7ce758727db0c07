package request

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
	// SendLimit is the longest time between the statement that started a run and the first byte of
	// its request. After it nothing is sent, because the process must have been suspended, and the
	// endpoint may have been paused or changed meanwhile.
	SendLimit = time.Second
	// tokenLimit extends SendLimit for a run that had to wait for an access token.
	tokenLimit = 10 * time.Second
)

// Outgoing is a request that is ready to be sent, with the secrets that it holds.
type Outgoing struct {
	egress.Request
	runSecrets

	// grant is the grant of its access token; nil: it carries none.
	grant *oauth2.Grant
	token string
}

// Prepare returns the request of a run. If the request cannot be sent, or not in time, it returns
// the outcome of the run.
func (c *Caller) Prepare(ctx context.Context, run *Run, sent time.Time) (Outgoing, *runs.Outcome) {
	r, refusal := c.build(ctx, run, sent)
	if refusal != nil {
		return Outgoing{}, refusal
	}
	limit := SendLimit
	if r.grant != nil {
		limit += tokenLimit
	}
	if late := time.Since(sent); late > limit {
		return Outgoing{}, &runs.Outcome{
			Status: runs.Skipped, Reason: runs.StartExpired,
			Error: fmt.Sprintf("nothing was sent: the worker stood still for %s after the start", late.Round(time.Millisecond)),
		}
	}
	return r, nil
}

// build returns the request of a run, or the outcome of the run if the request cannot be built.
// sent is when the start was sent: the execution limit counts from there.
func (c *Caller) build(ctx context.Context, run *Run, sent time.Time) (Outgoing, *runs.Outcome) {
	r, refusal := c.compose(ctx, run, sent)
	if refusal != nil {
		return Outgoing{}, refusal
	}
	c.offerCallback(&r, run)
	if err := c.sign(&r.Request, run, r.runSecrets); err != nil {
		return Outgoing{}, requestFailed(runs.SigningFailed, err)
	}
	return r, nil
}

// compose is build without callback URL and signature.
func (c *Caller) compose(ctx context.Context, run *Run, sent time.Time) (Outgoing, *runs.Outcome) {
	key, refusal := c.readSecrets(ctx, run)
	if refusal != nil {
		return Outgoing{}, refusal
	}
	r := Outgoing{Request: request(run), runSecrets: key}
	r.values = append(r.values, run.Target.Credentials...)
	if c.cfg.Allowances != nil {
		r.Allowance = c.cfg.Allowances.Of(run.Target.TenantID)
	}
	if run.Target.Template != nil {
		if err := r.fill(run); err != nil {
			return Outgoing{}, requestFailed(runs.TemplateFailed, err)
		}
	}
	if r.grant != nil {
		if refusal := c.authorize(ctx, run, &r, run.Target.Spec.MaxExecutionTime-time.Since(sent)); refusal != nil {
			return Outgoing{}, refusal
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
	if canceled, is := errors.AsType[*CanceledError](cause); is {
		return new(canceled.Unsent())
	}
	if errors.Is(cause, ErrShutdown) {
		return &runs.Outcome{
			Status: runs.Lost,
			Reason: runs.Shutdown,
			Error:  "nothing was sent: the worker stopped before " + before,
		}
	}
	return nil
}

// request builds the configured request of a run, with Rubato's own header fields in Meta.
func request(run *Run) egress.Request {
	spec := run.Target.Spec
	id := run.ID.String()
	key := id
	// The idempotency key is the same for every attempt of one due time, and for a rerun if that
	// was asked for.
	if run.Attempt != 1 || run.InfraAttempt > 0 {
		key = runs.FirstAttempt(run.Slot, run.EndpointID).String()
	}
	switch {
	case spec.StartsChain():
		// A further attempt is another run of the chain, unless infrastructure lost the last one.
		key = runs.NewID(run.Slot, run.EndpointID, run.Attempt, 0).String()
	case run.Target.SentKey != "":
		key = run.Target.SentKey
	}
	trace := hex.EncodeToString(run.ID[:])
	// One allocation for all values. The third index bounds the capacity of each, so that an append
	// to one header does not overwrite the next.
	values := [...]string{
		id, strconv.Itoa(run.Attempt), run.Slot.UTC().Format("2006-01-02T15:04:05.000Z"), strconv.FormatInt(run.Fence, 10),
		key, "00-" + trace + "-" + trace[16:] + "-01",
	}
	return egress.Request{
		Tenant: run.Target.TenantID,
		Method: spec.Method,
		URL:    run.Target.URL,
		Header: run.Target.Header,
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
func (r *Outgoing) fill(run *Run) error {
	shaped, err := run.Target.Template.Render(valuesOf(run, r.set))
	if err != nil {
		return err
	}
	r.URL, r.Body, r.Credentials = shaped.URL, []byte(shaped.Body), slices.Clip(run.Target.Template.Credentials())
	r.Header = owned(r.Header, len(shaped.Header))
	for name, value := range shaped.Header {
		r.Header[name] = []string{value}
	}
	r.values = append(r.values, shaped.Sensitive...)
	if run.Target.Template.SecretInBody() { // The endpoint may have got redirects after the request was queued.
		r.MaxRedirects = 0
	}
	if r.TLS != nil && shaped.ClientKey != "" {
		r.TLS.ClientKey = shaped.ClientKey
	}
	if g := shaped.OAuth2; g != nil {
		r.grant = &oauth2.Grant{
			TenantID:     run.TenantID,
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
func valuesOf(run *Run, set *secrets.Set) *template.Values {
	spec := run.Target.Spec
	return &template.Values{
		Run: template.Run{
			ID:           run.ID.String(),
			Attempt:      run.Attempt,
			ScheduledFor: cmp.Or(run.Target.DueFor, run.Slot),
		},
		Endpoint: template.Endpoint{
			ID:     endpoints.ID(run.EndpointID).String(),
			Name:   spec.Name,
			Key:    spec.Key,
			Labels: spec.Labels,
		},
		Last:    run.Last,
		Secrets: set,
	}
}

// authorize adds an access token to a request. If none is available in time, it returns the outcome
// of the run.
func (c *Caller) authorize(ctx context.Context, run *Run, r *Outgoing, left time.Duration) *runs.Outcome {
	limited, cancel := context.WithTimeout(ctx, min(tokenLimit, left))
	defer cancel()
	token, err := c.token(limited, run, *r.grant)
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
func (c *Caller) token(ctx context.Context, run *Run, g oauth2.Grant) (string, error) {
	atOnce, cancel := context.WithCancel(ctx)
	cancel() // With it the cache returns only a token that it has.
	if token, err := c.tokens.Token(atOnce, g); err == nil {
		return token, nil
	}
	run.release()
	return c.tokens.Token(ctx, g)
}

// ForgetRefusedToken drops an access token from the cache if the target refused it, so that the
// next run gets another one. An answer from another host after a redirect says nothing about the
// token, because that host did not get it.
func (c *Caller) ForgetRefusedToken(r Outgoing, answer egress.Response) {
	if r.grant != nil && answer.StatusCode == http.StatusUnauthorized && !answer.Elsewhere {
		c.tokens.Reject(*r.grant, r.token)
	}
}
