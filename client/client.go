package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// New returns a client of the server at a URL such as http://127.0.0.1:8080 that sends an API key with every request. It makes no
// request. Without a [WithHTTPClient] it uses an http.Client that has no timeout, so bound calls by their context, and that follows no
// redirects; one of your own should have [RefuseRedirect] too.
func New(url, key string, options ...ClientOption) (*ClientWithResponses, error) {
	authorize := WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	})
	direct := WithHTTPClient(&http.Client{CheckRedirect: RefuseRedirect})
	c, err := NewClientWithResponses(url, append([]ClientOption{authorize, direct}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", url, err)
	}
	return c, nil
}

// RefuseRedirect is the CheckRedirect of an http.Client that follows none. The API has no redirects. Those of a proxy in front of it
// often turn a POST, PATCH or DELETE into a GET, whose answer would look as if the change had been made.
func RefuseRedirect(next *http.Request, _ []*http.Request) error {
	return fmt.Errorf("the server redirects to %s, which is not followed: call it by its own address", next.URL.Redacted())
}

// Refused returns a [*Problem] where the server refused a request or failed on it, else nil. An answer that is no problem document,
// as a proxy on the way may give, becomes one with the code "unknown"; so does a redirect.
func Refused(response *http.Response, body []byte) error {
	if response.StatusCode < http.StatusMultipleChoices {
		return nil
	}
	var p Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		p = Problem{Type: "about:blank", Title: http.StatusText(response.StatusCode), Code: "unknown", Detail: "the answer is no problem document"}
	}
	p.Status = int32(response.StatusCode)
	return &p
}

// Error returns the detail and every bad field.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%d %s)", p.Detail, p.Status, p.Code)
	if p.Errors != nil {
		for _, f := range *p.Errors {
			b.WriteString("\n  " + f.Field + ": " + f.Message)
		}
	}
	return b.String()
}

// WithIdempotencyKey returns an editor for one POST, which names it by a text of the caller's own, such as a UUID, for 24 hours: sent
// again with the same key it is answered with the same answer and done once.
func WithIdempotencyKey(key string) RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("Idempotency-Key", key)
		return nil
	}
}
