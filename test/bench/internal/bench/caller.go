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

	*holding // of the fenced pipeline
}

// runID is what a target knows the run of a job by.
func (j job) runID() string {
	if j.holding != nil {
		return j.run.RunID.String()
	}
	return "job-" + strconv.Itoa(j.n)
}

// caller calls jobs over kept connections and does nothing else: no guard, no limits, no phases.
type caller struct {
	transport *http.Transport
	keeps     bool // bodies of answers
}

// answer is what a target said.
type answer struct {
	status int
	body   []byte // nil where the caller keeps none
}

func newCaller(conns int) *caller {
	return &caller{transport: &http.Transport{
		MaxIdleConns: conns, MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns, DisableCompression: true,
	}}
}

func (c *caller) close() { c.transport.CloseIdleConnections() }

// call makes the call of a job, with the headers from which the sink learns what came.
func (c *caller) call(ctx context.Context, j job) (a answer, err error) {
	target, err := url.Parse(j.url)
	if err != nil {
		return a, fmt.Errorf("reading the URL of %s: %w", j.runID(), err)
	}
	req := (&http.Request{
		Method: http.MethodGet, URL: target, Host: target.Host, Header: http.Header{
			"Rubato-Run-Id":        {j.runID()},
			"Rubato-Scheduled-For": {j.due.UTC().Format("2006-01-02T15:04:05.000Z")},
		},
	}).WithContext(ctx)
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return a, fmt.Errorf("calling %s: %w", j.runID(), err)
	}
	defer func() { _ = res.Body.Close() }()
	a.status = res.StatusCode
	if c.keeps {
		a.body, err = io.ReadAll(res.Body)
	} else {
		_, err = io.Copy(io.Discard, res.Body)
	}
	if err != nil {
		return a, fmt.Errorf("reading the answer to %s: %w", j.runID(), err)
	}
	return a, nil
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
