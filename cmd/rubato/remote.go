package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"rubato/client"
	"rubato/internal/app"
	"rubato/internal/config"
)

// callTimeout bounds one request: the API answers in milliseconds.
const callTimeout = 30 * time.Second

// remote is a server and the key for it.
type remote struct {
	url string
	key string
	api *client.Client
}

// connect finds the server: the flags win over the environment, and without an address it is the dev server that runs here. Its
// key is sent to that server only.
func (s *session) connect() (*remote, error) {
	settings, err := s.settings(config.Program{})
	if err != nil {
		return nil, err
	}
	r := &remote{url: settings.Client.URL, key: settings.Client.Key}
	if s.url != "" {
		r.url = strings.TrimRight(s.url, "/")
	}
	if s.key != "" {
		r.key = s.key
	}
	if r.url != "" && r.key != "" {
		return r.open()
	}
	dev, err := app.FindHome().FindServer()
	switch {
	case r.url != "" && (err != nil || dev.URL != r.url):
		return nil, usageError{"a key is needed for " + r.url + ": give --api-key or set " + config.APIKey}
	case err != nil:
		return nil, err
	}
	if r.key == "" {
		r.key = dev.Key
	}
	r.url = dev.URL
	return r.open()
}

// open returns a client that signs with the key.
func (r *remote) open() (*remote, error) {
	api, err := client.NewClient(r.url, client.WithHTTPClient(&http.Client{Timeout: callTimeout}), client.WithRequestEditorFn(r.sign))
	if err != nil {
		return nil, usageError{"the address of the server cannot be read: " + err.Error()}
	}
	r.api = api
	return r, nil
}

func (r *remote) sign(_ context.Context, req *http.Request) error {
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("User-Agent", "rubato-cli/"+app.Version())
	return nil
}

// read returns the JSON of an answer. One that is not a success is a [*problem].
func (r *remote) read(res *http.Response, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, r.unreachable(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", r.url, err)
	}
	if res.StatusCode/100 != 2 {
		return nil, problemOf(res, text)
	}
	return text, nil
}

// unreachable words why no answer came.
func (r *remote) unreachable(err error) error {
	late, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case isNet && late.Timeout():
		return fmt.Errorf("%s did not answer within %s", r.url, callTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s: has the server been stopped?", r.url)
	default:
		return fmt.Errorf("calling the server: %w", err)
	}
}

// problem is a refusal by the server, in its own words.
type problem struct {
	Status int                 `json:"status,omitempty"`
	Code   string              `json:"code"`
	Detail string              `json:"detail"`
	Errors []client.FieldError `json:"errors,omitempty"`
}

// problemOf reads a refusal. One that is not ours comes from something between us and the server.
func problemOf(res *http.Response, text []byte) *problem {
	p := &problem{}
	if err := json.Unmarshal(text, p); err != nil || p.Code == "" {
		p = &problem{Code: "unexpected_answer", Detail: "the server answered " + res.Status + ": is it Rubato?"}
	}
	p.Status = res.StatusCode
	return p
}

// Error returns what is wrong, every bad field on a line of its own.
func (p *problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Detail)
	for _, e := range p.Errors {
		b.WriteString("\n  - " + e.Field + ": " + e.Message)
	}
	return b.String()
}

func (p *problem) exitCode() int {
	switch p.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return app.ExitUsage
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return exitConflict
	default:
		return app.ExitFailure
	}
}
