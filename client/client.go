package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// New returns a client of the server at a URL such as http://127.0.0.1:8080 that sends an API key
// with every request. It does not connect. The default http.Client has no timeout, so bound calls
// by a deadline of their context, and follows no redirects. A client set by [WithHTTPClient] should
// use [RefuseRedirect] too.
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

// RefuseRedirect is the CheckRedirect of an http.Client that follows no redirect. The API has none.
// Redirects of a proxy before it often turn a POST, PATCH or DELETE into a GET. Its response would
// look like a successful change.
func RefuseRedirect(next *http.Request, _ []*http.Request) error {
	return fmt.Errorf("the server redirects to %s, which is not followed: call it by its own address", next.URL.Redacted())
}

// Refused returns a [*Problem] if the server refused a request or failed, otherwise nil. A response
// without a problem document, e.g. from a proxy, becomes a Problem with the code "unknown". So does
// a redirect.
func Refused(response *http.Response, body []byte) error {
	if response.StatusCode < http.StatusMultipleChoices {
		return nil
	}
	var p Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		p = Problem{
			Type:   "about:blank",
			Title:  http.StatusText(response.StatusCode),
			Code:   "unknown",
			Detail: "the answer is no problem document",
		}
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

// WithIdempotencyKey returns a request editor that makes one POST idempotent. The key is a text of
// the caller's choice, such as a UUID. For 24 hours a retry with the same key executes nothing and
// gets the stored response.
func WithIdempotencyKey(key string) RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("Idempotency-Key", key)
		return nil
	}
}
