package openai

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// maxAnswer is how much of an answer is read. A completion of a few hundred tokens takes some kilobytes; what is longer is no answer
// to what was asked, and 16 sessions at once must not fill the memory.
const maxResponseBytes = 512 << 10

// errRedirected refuses to take the key to where an answer points.
var errRedirect = errors.New("the service redirects; its base URL must be the last one")

// transport is the way to the service: it asks nothing while the gate is shut, and hands on no more than maxAnswer bytes.
type transport struct {
	base     http.RoundTripper
	throttle *throttle
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if until, shut := t.throttle.active(); shut {
		if r.Body != nil {
			_ = r.Body.Close() // A RoundTripper closes the body that it was given, whatever happens.
		}
		return nil, &Failure{Kind: Throttled, RetryAt: until}
	}
	answer, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if until := t.throttle.observe(answer); !until.IsZero() {
		_ = answer.Body.Close()
		return nil, &Failure{Kind: Throttled, Status: answer.StatusCode, RetryAt: until}
	}
	if answer.ContentLength > maxResponseBytes {
		_ = answer.Body.Close()
		return nil, &Failure{Kind: TooLarge, Status: answer.StatusCode}
	}
	answer.Body = &limitedBody{body: answer.Body, status: answer.StatusCode, remaining: maxResponseBytes}
	return answer, nil
}

// bounded is a body that fails instead of going on for ever.
type limitedBody struct {
	body      io.ReadCloser
	status    int
	remaining int64
}

// Read implements [io.Reader].
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.remaining <= 0 {
		return 0, &Failure{Kind: TooLarge, Status: b.status}
	}
	n, err := b.body.Read(p[:min(int64(len(p)), b.remaining)])
	b.remaining -= int64(n)
	return n, err
}

// Close implements [io.Closer].
func (b *limitedBody) Close() error { return b.body.Close() }

// followed returns a context for one request, and a way to ask whether that was written to its end, or answered: from then on the service
// may be at work on it, whatever becomes of the connection or of who waits.
func traceSent(ctx context.Context) (following context.Context, left func() bool) {
	var gone atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				gone.Store(true)
			}
		},
		GotFirstResponseByte: func() { gone.Store(true) },
	}), gone.Load
}

// newHTTPClient returns a client of its own: each phase has an end, proxies come from the environment, redirects are refused.
// The address is the operator's word and may well be private, a model beside the planner; so the guard of targets has no part here.
func newHTTPClient(g *throttle, timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &transport{throttle: g, base: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout:    5 * time.Second,
			ResponseHeaderTimeout:  timeout,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    4,
			IdleConnTimeout:        90 * time.Second,
			ForceAttemptHTTP2:      true,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
}
