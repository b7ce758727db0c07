package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"rubato/client"
	"rubato/internal/answers"
	"rubato/internal/auth"
)

// apiRequest is a request to the API.
type apiRequest struct {
	method string
	path   string // escaped
	query  url.Values
	body   any         // written as JSON; an io.Reader as it is; nil: none
	header http.Header // beside those that every request has
}

// get reads something from the API into out.
func (v *pageRequest) get(path string, query url.Values, out any) error {
	return v.call(apiRequest{
		method: http.MethodGet,
		path:   path,
		query:  query,
	}, out)
}

// post sends a change to the API and decodes the response into out. once is the idempotency key of
// the form, so that a form that is sent twice is carried out once; empty: it may be repeated.
func (v *pageRequest) post(path, once string, body, out any) error {
	header := http.Header{}
	if once != "" {
		header.Set("Idempotency-Key", once)
	}
	return v.call(apiRequest{
		method: http.MethodPost,
		path:   path,
		body:   body,
		header: header,
	}, out)
}

// call sends a request to the API with the principal of the session's key. The error is a
// [*client.Problem] if the API refuses.
func (v *pageRequest) call(a apiRequest, out any) error {
	r, err := a.request(auth.Vouch(v.r.Context(), v.who))
	if err != nil {
		return fmt.Errorf("asking the API for %s %s: %w", a.method, a.path, err)
	}
	v.lead(r)
	var answer answers.Recorder
	v.api.ServeHTTP(&answer, r)
	if answer.Status() >= http.StatusMultipleChoices {
		problem := new(client.Problem)
		if err := json.Unmarshal(answer.Body.Bytes(), problem); err != nil || problem.Status == 0 {
			return fmt.Errorf("the API answered %s %s with status %d and no problem: %q", a.method, a.path, answer.Status(), answer.Body.String())
		}
		return problem
	}
	if raw, is := out.(*[]byte); is {
		*raw = answer.Body.Bytes()
		return nil
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Body.Bytes(), out); err != nil {
		return fmt.Errorf("reading the API's answer to %s %s: %w", a.method, a.path, err)
	}
	return nil
}

// lead hands on where the request comes from, so that limits, logs and the audit log know it.
func (v *pageRequest) lead(r *http.Request) {
	r.RemoteAddr = v.r.RemoteAddr
	for name, values := range v.r.Header {
		if slices.Contains([]string{"X-Request-Id", "X-Forwarded-For", "Forwarded"}, name) {
			r.Header[name] = values
		}
	}
}

func (a apiRequest) request(ctx context.Context) (*http.Request, error) {
	var body io.Reader
	media := "application/json"
	switch b := a.body.(type) {
	case nil:
	case io.Reader:
		body, media = b, "application/x-ndjson"
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	target := a.path
	if len(a.query) > 0 {
		target += "?" + a.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, a.method, target, body)
	if err != nil {
		return nil, err
	}
	r.RequestURI = target
	if a.header != nil {
		r.Header = a.header
	}
	if body != nil {
		r.Header.Set("Content-Type", media)
	} else {
		r.Body = http.NoBody
	}
	return r, nil
}
