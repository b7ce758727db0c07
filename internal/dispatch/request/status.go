package request

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"rubato/internal/chains"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

const (
	// PollTimeout is the maximum timeout of a request to a status URL.
	PollTimeout = 30 * time.Second
	// pollFirst is the first wait without Retry-After. It doubles up to pollLast.
	pollFirst = 5 * time.Second
	pollLast  = time.Minute
	// pollMin and pollMax bound a Retry-After.
	pollMin = time.Second
	pollMax = time.Hour
	// pollRedirects lets a status URL redirect to the result, as by 303 (See Other).
	pollRedirects = 1
	// statusHeader takes precedence over Location, which some targets use otherwise.
	statusHeader = "Rubato-Status-Url"
	maxStatusURL = 2048
)

// Suspends reports whether an answer suspends its run.
func (t *Target) Suspends(answer egress.Response, err error) bool {
	return err == nil && answer.StatusCode == http.StatusAccepted && t.SuspensionWait() > 0
}

// SuspensionWait returns how long a run waits for its end after the answer 202; 0: a 202 ends it. A
// run of a chain ends by the timeout of the chain.
func (t *Target) SuspensionWait() time.Duration {
	if t.Spec.StartsChain() {
		return chains.MaxTimeout
	}
	return t.Spec.Async.Timeout
}

// StatusURL returns the absolute URL at which a target tells the state of a run; empty: it names
// none that can be asked.
func StatusURL(asked string, answer egress.Response) string {
	named := answer.Header.Get(statusHeader)
	if named == "" {
		named = answer.Header.Get("Location")
	}
	if _, is := endpoints.ChainOf(asked); is { // The answer is Rubato's own.
		return named
	}
	base, err := url.Parse(asked)
	if named == "" || err != nil || answer.Elsewhere {
		return ""
	}
	u, err := base.Parse(named)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return ""
	}
	u.Fragment = ""
	if text := u.String(); len(text) <= maxStatusURL {
		return text
	}
	return ""
}

// Status asks the status URL of a suspended run. polls is the number of requests to it so far. wait
// is set if the target has no result yet, or did not answer; otherwise the outcome ends the run.
func (c *Caller) Status(ctx context.Context, run *Run, statusURL string, polls int) (outcome runs.Outcome, wait time.Duration) {
	r, refusal := c.compose(ctx, run, time.Now())
	now, _ := c.cfg.Now()
	if refusal != nil { // The secrets or the token may be available later.
		return runs.Outcome{}, PollWait(nil, now, polls)
	}
	r.toStatus(statusURL)
	answer, err := c.Send(ctx, run.ID, r.Request)
	c.ForgetRefusedToken(r, answer)
	now, _ = c.cfg.Now()
	if pending(answer, err) {
		return runs.Outcome{}, PollWait(answer.Header, now, polls)
	}
	judged, done := context.WithTimeout(ctx, PollTimeout)
	defer done()
	outcome, _ = c.outcome(judged, r.runSecrets, run.Target, Exchange{
		Answer: answer,
		At:     now,
	})
	return outcome, 0
}

// toStatus turns the request of a run into the one for its state. A status URL of another origin
// gets neither the headers of the endpoint nor its client certificate.
func (r *Outgoing) toStatus(status string) {
	if !sameOrigin(status, r.URL) {
		r.Header, r.Credentials, r.TLS, r.grant = nil, nil, nil, nil
	}
	r.Header = owned(r.Header, 0)
	r.Header.Del("Content-Type")
	r.Method, r.URL, r.Body = http.MethodGet, status, nil
	r.Timeout = min(r.Timeout, PollTimeout)
	r.MaxRedirects = max(r.MaxRedirects, pollRedirects)
}

// pending reports whether an answer of a status URL leaves the end of the run open: 202, or a
// failure that may pass.
func pending(answer egress.Response, err error) bool {
	return err != nil || answer.StatusCode >= http.StatusInternalServerError ||
		slices.Contains([]int{http.StatusAccepted, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}, answer.StatusCode)
}

// PollWait returns the time until the next request to a status URL: the Retry-After of the last
// answer, or an exponential backoff by the number of requests so far.
func PollWait(header http.Header, now time.Time, polls int) time.Duration {
	if at, asked := egress.RetryAfter(header, now); asked {
		return min(max(at.Sub(now), pollMin), pollMax)
	}
	return min(pollFirst<<min(polls, 8), pollLast)
}
