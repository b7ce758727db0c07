package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"rubato/client"
	"rubato/internal/app"
	"rubato/internal/app/dev"
	"rubato/internal/config"
)

// callTimeout bounds one request: the API answers in milliseconds, but for tests of endpoints, which wait for their targets for 45 s.
const callTimeout = time.Minute

// remote is a server and the key for it.
type remote struct {
	url string
	key string // empty: none
	api *client.ClientWithResponses
}

// connect finds the server: the flags win over the environment, and without an address it is the dev server that runs here. Its
// key is sent to that server only.
func (s *session) connect() (*remote, error) {
	r, err := s.find()
	if err == nil && r.key == "" {
		err = usageError{"no API key for " + r.url + ": give --api-key or set " + config.APIKey}
	}
	if err != nil {
		return nil, err
	}
	return r.open()
}

// connectUnsigned finds the server for what everybody may ask it, with a key or without.
func (s *session) connectUnsigned() (*remote, error) {
	r, err := s.find()
	if err != nil {
		return nil, err
	}
	r.key = ""
	return r.open()
}

// find names the server and, where one is known, the key for it.
func (s *session) find() (*remote, error) {
	settings, err := s.settings(config.Program{})
	if err != nil {
		return nil, err
	}
	r := &remote{url: settings.Client.URL, key: settings.Client.Key}
	if s.url != "" {
		if r.url, err = config.BaseURL(s.url); err != nil {
			return nil, usageError{"the server " + err.Error()}
		}
	}
	if s.key != "" {
		r.key = s.key
	}
	if r.url != "" && r.key != "" {
		return r, nil
	}
	dev, err := dev.FindHome(s.environ).FindServer()
	if r.url != "" && dev.URL != r.url { // Whether one runs here or not, another one is meant.
		return r, nil
	}
	if r.key == "" {
		r.key = dev.Key
	}
	r.url = dev.URL
	return r, err
}

// open returns a client that signs with the key, if there is one.
func (r *remote) open() (*remote, error) {
	options := []client.ClientOption{client.WithHTTPClient(direct(callTimeout)), client.WithRequestEditorFn(introduce)}
	var err error
	if r.key == "" {
		r.api, err = client.NewClientWithResponses(r.url, options...)
	} else {
		r.api, err = client.New(r.url, r.key, options...)
	}
	if err != nil {
		return nil, usageError{err.Error()}
	}
	return r, nil
}

// direct returns a client that follows no redirects. A timeout of zero is none.
func direct(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, CheckRedirect: client.RefuseRedirect}
}

// introduce tells the server's log who calls.
func introduce(_ context.Context, req *http.Request) error {
	req.Header.Set("User-Agent", "rubato-cli/"+app.Version())
	return nil
}

// answer is what every generated method answers.
type answer interface {
	StatusCode() int
	GetBody() []byte
}

// read returns the JSON of an answer. One that is not a success is a [*client.Problem].
func (r *remote) read(a answer, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, r.unreachable(err)
	}
	if err := refused(&http.Response{StatusCode: a.StatusCode()}, a.GetBody()); err != nil {
		return nil, err
	}
	return a.GetBody(), nil
}

// refused is client.Refused in words of the command line, where those of the API are about a request.
func refused(response *http.Response, body []byte) error {
	err := client.Refused(response, body)
	problem, is := errors.AsType[*client.Problem](err)
	if !is {
		return err
	}
	switch problem.Code {
	case "unauthorized":
		problem.Detail = "the API key is not valid; set a valid one with --api-key or " + config.APIKey
	case "endpoint_exists": // Of put alone.
		problem.Detail = "an endpoint has this key already; omit --new to replace it"
	}
	return err
}

// unreachable words why no answer came.
func (r *remote) unreachable(err error) error {
	late, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted before %s responded; the request may have taken effect: %w", r.url, err)
	case isNet && late.Timeout():
		return fmt.Errorf("%s did not answer within %s", r.url, callTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("connection refused by %s: is the server running?", r.url)
	default:
		return fmt.Errorf("calling the server: %w", err)
	}
}

// exitCodeOf returns the exit code that tells what kind of refusal it was.
func exitCodeOf(p *client.Problem) int {
	switch p.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return app.ExitUsage
	case http.StatusNotFound:
		return app.ExitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return app.ExitConflict
	default:
		return app.ExitFailure
	}
}
