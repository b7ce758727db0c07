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

// callTimeout bounds one request. It is long because a test of an endpoint waits up to 45 s for the
// target.
const callTimeout = time.Minute

// remote is a server, the API key for it, and a client.
type remote struct {
	url string
	key string // empty: no key
	api *client.ClientWithResponses
}

// connect returns a client of the server. Flags take precedence over the environment, and the
// fallback is the dev server on this machine. The key of the dev server is only sent to that
// server.
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

// connectUnsigned returns a client without a key, for operations that need no authentication.
func (s *session) connectUnsigned() (*remote, error) {
	r, err := s.find()
	if err != nil {
		return nil, err
	}
	r.key = ""
	return r.open()
}

// find determines the URL of the server, and its key if one is known.
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
	// The URL is not the dev server's, therefore an error of FindServer does not matter.
	if r.url != "" && dev.URL != r.url {
		return r, nil
	}
	if r.key == "" {
		r.key = dev.Key
	}
	r.url = dev.URL
	return r, err
}

// open creates the client. Requests carry the key if there is one.
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

// direct returns an HTTP client that refuses redirects, because a redirected DELETE would become a
// GET. A timeout of zero means no limit.
func direct(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, CheckRedirect: client.RefuseRedirect}
}

// introduce sets the User-Agent, so that the server's log identifies the command line.
func introduce(_ context.Context, req *http.Request) error {
	req.Header.Set("User-Agent", "rubato-cli/"+app.Version())
	return nil
}

// answer is the interface of every generated response.
type answer interface {
	StatusCode() int
	GetBody() []byte
}

// read returns the JSON of a response. A response other than a success is a [*client.Problem].
func (r *remote) read(a answer, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, r.unreachable(err)
	}
	if err := refused(&http.Response{StatusCode: a.StatusCode()}, a.GetBody()); err != nil {
		return nil, err
	}
	return a.GetBody(), nil
}

// refused returns client.Refused in terms of flags, because the API's messages describe a request.
func refused(response *http.Response, body []byte) error {
	err := client.Refused(response, body)
	problem, is := errors.AsType[*client.Problem](err)
	if !is {
		return err
	}
	switch problem.Code {
	case "unauthorized":
		problem.Detail = "the API key is not valid; set a valid one with --api-key or " + config.APIKey
	case "endpoint_exists": // only put returns it
		problem.Detail = "an endpoint has this key already; omit --new to replace it"
	}
	return err
}

// unreachable returns the error of a request without a response.
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

// exitCodeOf returns the exit code for a problem, by its status.
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
