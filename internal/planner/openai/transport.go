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

// maxResponseBytes limits the body of a response. A completion of a few hundred tokens takes some
// kilobytes, and 16 concurrent sessions must not exhaust memory.
const maxResponseBytes = 512 << 10

// errRedirect refuses redirects, because they would send the API key to another host.
var errRedirect = errors.New("the service redirects: set its final address as the base URL")

// transport sends requests to the service. It sends none while the throttle is active, and limits
// the response body to maxResponseBytes.
type transport struct {
	base     http.RoundTripper
	throttle *throttle
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if until, shut := t.throttle.active(); shut {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper always closes the request body
		}
		return nil, &Failure{Kind: Throttled, RetryAt: until}
	}
	answer, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if until := t.throttle.observe(answer); !until.IsZero() {
		_ = answer.Body.Close()
		return nil, &Failure{
			Kind:    Throttled,
			Status:  answer.StatusCode,
			RetryAt: until,
		}
	}
	if answer.ContentLength > maxResponseBytes {
		_ = answer.Body.Close()
		return nil, &Failure{Kind: TooLarge, Status: answer.StatusCode}
	}
	answer.Body = &limitedBody{
		body:      answer.Body,
		status:    answer.StatusCode,
		remaining: maxResponseBytes,
	}
	return answer, nil
}

// limitedBody is a body that fails at its size limit.
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

// traceSent returns a context for one request, and a function that reports whether the request was
// written completely or answered. From then on the service may process it, even if the connection
// breaks.
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

// newHTTPClient returns the client for the service. Each phase has a timeout, proxies come from the
// environment, and redirects are refused. The operator configures the address, which may be
// private, so the egress guard of targets does not apply.
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
