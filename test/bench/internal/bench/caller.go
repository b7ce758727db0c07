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

// job is one request to send.
type job struct {
	n   int
	url string
	due time.Time

	*claimedJob // set in the fenced pipeline
}

// runID identifies the run of a job to a target.
func (j job) runID() string {
	if j.claimedJob != nil {
		return j.run.RunID.String()
	}
	return "job-" + strconv.Itoa(j.n)
}

// caller sends the requests of jobs over kept-alive connections. It has no egress guard, limits or
// trace.
type caller struct {
	transport *http.Transport
	// keeps keeps the bodies of answers.
	keeps bool
}

// answer is the answer of a target.
type answer struct {
	status int
	body   []byte // nil unless the caller keeps bodies
}

func newCaller(conns int) *caller {
	return &caller{transport: &http.Transport{
		MaxIdleConns:        conns,
		MaxIdleConnsPerHost: conns,
		MaxConnsPerHost:     conns,
		DisableCompression:  true,
	}}
}

func (c *caller) close() { c.transport.CloseIdleConnections() }

// call sends the request of a job, with the headers that the sink identifies it by.
func (c *caller) call(ctx context.Context, j job) (a answer, err error) {
	target, err := url.Parse(j.url)
	if err != nil {
		return a, fmt.Errorf("reading the URL of %s: %w", j.runID(), err)
	}
	req := (&http.Request{
		Method: http.MethodGet,
		URL:    target,
		Host:   target.Host,
		Header: http.Header{
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

// await waits until an instant of the local clock. It returns false if ctx has ended before.
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
