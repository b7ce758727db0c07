package dispatch

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
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
	// sendLimit is how much time may pass between the statement that started a run and its first byte. Past it the process was
	// stopped, and what was true at the start may not be any more: nothing is sent.
	sendLimit = time.Second
	// tokenLimit is how much longer it may be for a run that had to wait for an access token.
	tokenLimit = 10 * time.Second
)

// outgoing is a request that may leave.
type outgoing struct {
	egress.Request

	grant *oauth2.Grant // of the access token that it carries; nil: none
	token string
}

// prepare returns the request of a run, or how the run ends because there is none to send.
func (w *Worker) prepare(ctx context.Context, b waiting, s Started, sent time.Time) (outgoing, *runs.Outcome) {
	r, limit := outgoing{Request: request(b, s)}, sendLimit
	if shape := b.target.Shape; shape != nil {
		grant, err := fill(&r.Request, b, s, nil)
		if err != nil {
			return outgoing{}, &runs.Outcome{Status: runs.Failed, Reason: runs.TemplateFailed, Error: "nothing was sent: " + err.Error()}
		}
		if grant != nil {
			limit += tokenLimit
			if refusal := w.authorize(ctx, &r, *grant, b.target.Spec.MaxExecutionTime-time.Since(sent)); refusal != nil {
				return outgoing{}, refusal
			}
		}
	}
	if late := time.Since(sent); late > limit {
		return outgoing{}, &runs.Outcome{
			Status: runs.Skipped, Reason: runs.StartExpired,
			Error: fmt.Sprintf("nothing was sent: the worker stood still for %s after the start", late.Round(time.Millisecond)),
		}
	}
	return r, nil
}

// request builds the request of a run as it is configured, with what Rubato says about itself.
func request(b waiting, s Started) egress.Request {
	spec := b.target.Spec
	key := runs.NewID(b.claim.Slot, b.claim.EndpointID, 1) // The same for every attempt of one due time.
	trace := hex.EncodeToString(s.RunID[:])
	return egress.Request{
		Method: spec.Method,
		URL:    b.target.URL,
		Header: b.target.Header,
		Meta: http.Header{
			"Rubato-Run-Id":        {s.RunID.String()},
			"Rubato-Attempt":       {strconv.Itoa(b.claim.Attempt)},
			"Rubato-Scheduled-For": {b.claim.Slot.UTC().Format("2006-01-02T15:04:05.000Z")},
			"Rubato-Fence":         {strconv.FormatInt(b.claim.Token, 10)},
			"Idempotency-Key":      {key.String()},
			"Traceparent":          {"00-" + trace + "-" + trace[16:] + "-01"},
		},
		Body:         []byte(spec.Body),
		Timeout:      spec.Timeout,
		MaxBody:      int64(spec.MaxResponseKB) << 10,
		MaxRedirects: spec.FollowRedirects,
	}
}

// fill puts the values of a run into its request. It returns the grant of the access token that the request needs, if any.
func fill(r *egress.Request, b waiting, s Started, set *secrets.Set) (*oauth2.Grant, error) {
	shaped, err := b.target.Shape.Render(valuesOf(b, s, set))
	if err != nil {
		return nil, err
	}
	r.URL, r.Body = shaped.URL, []byte(shaped.Body)
	r.Header = maps.Clone(r.Header) // All runs share the configured one.
	for name, value := range shaped.Header {
		r.Header[name] = []string{value}
	}
	if shaped.OAuth2 == nil {
		return nil, nil //nolint:nilnil // No grant is no error.
	}
	return grantOf(s.TenantID, *shaped.OAuth2), nil
}

// valuesOf returns what the templates of a run may speak of.
func valuesOf(b waiting, s Started, set *secrets.Set) *template.Values {
	spec := b.target.Spec
	return &template.Values{
		Run: template.Run{ID: s.RunID.String(), Attempt: b.claim.Attempt, ScheduledFor: b.claim.Slot},
		Endpoint: template.Endpoint{
			ID: endpoints.ID(b.claim.EndpointID).String(), Name: spec.Name, Key: spec.Key, Labels: spec.Labels,
		},
		Last:    s.Last,
		Secrets: set,
	}
}

func grantOf(tenant [16]byte, g endpoints.Grant) *oauth2.Grant {
	return &oauth2.Grant{
		TenantID: tenant, TokenURL: g.TokenURL, ClientID: g.ClientID, ClientSecret: g.ClientSecret, Audience: g.Audience, Scopes: g.Scopes,
	}
}

// authorize puts an access token into a request, and returns how the run ends where there is none in time.
func (w *Worker) authorize(ctx context.Context, r *outgoing, g oauth2.Grant, left time.Duration) *runs.Outcome {
	limited, cancel := context.WithTimeout(ctx, min(tokenLimit, left))
	defer cancel()
	token, err := w.tokens.Token(limited, g)
	switch canceled, is := errors.AsType[*canceledError](context.Cause(ctx)); {
	case is:
		return new(unsent(canceled))
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errShutdown):
		return &runs.Outcome{Status: runs.Lost, Reason: runs.Shutdown, Error: "nothing was sent: the worker stopped before there was an access token"}
	case err != nil:
		return &runs.Outcome{Status: runs.Failed, Reason: runs.AuthFailed, Error: "nothing was sent: " + err.Error()}
	}
	r.Header["Authorization"] = []string{"Bearer " + token}
	r.grant, r.token = &g, token
	return nil
}

// look sees to what an answer says about the access token: one that was refused is forgotten, and the next run gets another.
func (w *Worker) look(r outgoing, status int) {
	if r.grant != nil && status == http.StatusUnauthorized {
		w.tokens.Reject(*r.grant, r.token)
	}
}
