package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// job is one call to be made.
type job struct {
	n   int
	url string
	due time.Time
}

// caller calls jobs over kept connections and does nothing else: no guard, no limits, no phases.
type caller struct {
	transport *http.Transport
}

func newCaller(conns int) *caller {
	return &caller{transport: &http.Transport{
		MaxIdleConns: conns, MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns, DisableCompression: true,
	}}
}

func (c *caller) close() { c.transport.CloseIdleConnections() }

// call makes the call of a job, with the headers from which the sink learns what came.
func (c *caller) call(ctx context.Context, j job) (status int, err error) {
	target, err := url.Parse(j.url)
	if err != nil {
		return 0, fmt.Errorf("reading the URL of job %d: %w", j.n, err)
	}
	req := (&http.Request{
		Method: http.MethodGet, URL: target, Host: target.Host, Header: http.Header{
			"Rubato-Run-Id":        {"job-" + strconv.Itoa(j.n)},
			"Rubato-Scheduled-For": {j.due.UTC().Format("2006-01-02T15:04:05.000Z")},
		},
	}).WithContext(ctx)
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return 0, fmt.Errorf("calling job %d: %w", j.n, err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0, fmt.Errorf("reading the answer to job %d: %w", j.n, err)
	}
	return res.StatusCode, nil
}

// await waits until an instant of this machine's clock, and reports whether ctx lasted as long.
func await(ctx context.Context, at time.Time) bool {
	for {
		left := time.Until(at)
		if left <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}
