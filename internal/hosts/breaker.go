// Package hosts holds the circuit breaker of hosts: whether requests to a host and port may be
// sent, and which of them are probes. It also holds their limits: how many requests may be in
// flight or sent per second.
//
// A breaker is closed, open or half-open. The database keeps one row for each host with failures,
// and all workers share it. A worker counts outcomes in a [Tally], merges them into the row by
// [Breaker.Apply], and reads its own copy, a [Book], before each request. This package is pure: it
// has no clock and no database.
package hosts

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"
)

// State is the state of a breaker.
type State string

// The states. Transitions lists the legal moves between them.
const (
	Closed   State = "closed"    // requests are sent
	Open     State = "open"      // no request is sent until OpenUntil
	HalfOpen State = "half_open" // only probes are sent
)

// Transition is a legal move of a breaker.
type Transition struct {
	From, To State
	// Cause is the event that moves the breaker.
	Cause string
}

// Transitions returns every legal move. A trigger of the table hosts refuses all others.
func Transitions() []Transition {
	return []Transition{
		{Closed, Open, "as many failures in a row as the host's threshold"},
		{Open, HalfOpen, "the first probe after the end of the window, or a successful forced run"},
		{HalfOpen, Open, "a failed probe; the next window is twice as long"},
		{HalfOpen, Closed, "the second successful probe, or a reset by a user"},
		{Open, Closed, "a reset by a user"},
	}
}

const (
	// MaxProbes is the number of probes of a half-open breaker, of all workers together.
	MaxProbes = 3
	// ProbeSuccesses is the number of successful probes that close a breaker.
	ProbeSuccesses = 2
	// DefaultFailures is the default number of failures in a row that open a breaker.
	DefaultFailures = 5
	// DefaultWindow is the default length of the first window of an open breaker.
	DefaultWindow = 30 * time.Second
	// MaxWindow bounds the windows, which double from one to the next, before jitter.
	MaxWindow = 10 * time.Minute
	// windowJitter is the divisor of a window that bounds its jitter. Breakers that opened together
	// must not end their windows together.
	windowJitter = 10
	// leastSpread is the least time over which deferred endpoints come back after a window.
	leastSpread = 5 * time.Second
	// maxRetryAfter bounds how long the Retry-After of a target extends a window.
	maxRetryAfter = 15 * time.Minute
)

// Key identifies a breaker. A port speaks either HTTP or HTTPS, so the scheme is no part of it.
type Key struct {
	// Scope is the tenant, or the zero value if all tenants share the breakers.
	Scope [16]byte
	// Host is host and port, such as api.example.com:443.
	Host string
}

// Settings are the user's thresholds and limits of a host. Zero values mean the defaults.
type Settings struct {
	// Threshold is the number of failures in a row that open the breaker.
	Threshold int
	// Window is the length of the first window.
	Window time.Duration
	Limits Limits
}

// Seat is the right of one claim to be a probe. It is bound to the claim's lock: once the endpoint
// is locked under another token, or the lock has expired, the seat is free.
type Seat struct {
	Endpoint [16]byte
	Token    int64
}

// Breaker is the state of one host.
type Breaker struct {
	Key
	Settings

	State State
	// Failures is the number of failures in a row of a closed breaker.
	Failures int
	// Openings is the number of windows since the breaker was last closed.
	Openings int
	// Successes is the number of successful probes of a half-open breaker.
	Successes int
	// Since is when the state was last entered.
	Since time.Time
	// OpenUntil is the end of the latest window; zero: the breaker never opened since it was
	// closed.
	OpenUntil time.Time
	// Seats are the probes in flight.
	Seats []Seat
	// HeldUntil is the instant before which the target asked for no request; zero: none.
	HeldUntil time.Time
	// Concurrency and Rate are the adaptive limits of requests in flight and of requests per
	// second.
	Concurrency, Rate Throttle
	// Latency is the 95th percentile of the answers at the last sample; zero: unknown. Samples are
	// stored only for hosts with an overload or an adaptive limit.
	Latency time.Duration
}

// New returns the closed breaker of a host without failures.
func New(key Key, now time.Time) Breaker {
	return Breaker{Key: key, State: Closed, Since: now}
}

// Verdict is the outcome of a request as a breaker sees it.
type Verdict int

// The verdicts.
const (
	// Neutral says nothing about the host, because nothing was sent or Rubato itself failed.
	Neutral Verdict = iota
	Success
	Failure
)

// Report is the sum of outcomes that a worker counted for a host.
type Report struct {
	Key
	// Succeeded is set if a request succeeded before the failures.
	Succeeded bool
	// Failures is the number of failures in a row at the end.
	Failures int
	// RetryAfter is the latest instant for which a failure asked; zero: none.
	RetryAfter time.Time
	// Endpoint is that of the latest failure; zero: there was none.
	Endpoint [16]byte
	// HoldUntil is the latest instant before which an answer asked for no request, be it a failure
	// or not; zero: none.
	HoldUntil time.Time
	// Probes are the outcomes of probes.
	Probes []Probe
	// Sample is the traffic since the last report; nil: it changes no limit.
	Sample *Sample
}

// Probe is the outcome of a probe.
type Probe struct {
	Seat
	Verdict Verdict
}

// Apply merges a report at an instant. In an open or half-open breaker only probes count, because
// other requests were sent before it opened.
func (b *Breaker) Apply(now time.Time, r Report) {
	for _, p := range r.Probes {
		b.settle(now, p, r.RetryAfter)
	}
	if r.HoldUntil.After(b.HeldUntil) && r.HoldUntil.After(now) {
		b.HeldUntil = earlier(r.HoldUntil, now.Add(maxRetryAfter)).Truncate(time.Millisecond)
	}
	if r.Sample != nil {
		b.adapt(now, *r.Sample)
	}
	if b.State != Closed {
		return
	}
	if r.Succeeded {
		b.Failures = 0
	}
	b.Failures += r.Failures
	if b.Failures >= b.ToOpen() {
		b.open(now, r.RetryAfter)
	}
}

// settle applies the outcome of a probe. It ignores a probe whose seat was lost.
func (b *Breaker) settle(now time.Time, p Probe, retryAfter time.Time) {
	at := slices.Index(b.Seats, p.Seat)
	if at < 0 {
		return
	}
	b.Seats = slices.Delete(b.Seats, at, at+1)
	switch p.Verdict {
	case Success:
		if b.State == Open { // A forced run.
			b.enter(HalfOpen, now)
		}
		if b.Successes++; b.Successes >= ProbeSuccesses {
			b.Reset(now)
		}
	case Failure:
		if b.State == HalfOpen {
			b.open(now, retryAfter)
		}
	case Neutral:
	}
}

// Reset closes the breaker.
func (b *Breaker) Reset(now time.Time) {
	if b.State != Closed {
		b.enter(Closed, now)
	}
	b.Failures, b.Openings, b.Successes, b.OpenUntil, b.Seats = 0, 0, 0, time.Time{}, nil
}

// Admit reports whether a claim may be sent now as a probe, and gives it a seat. alive reports
// whether the lock of an earlier seat still holds. A forced claim gets a seat at any time. A closed
// breaker admits every claim without a seat.
func (b *Breaker) Admit(now time.Time, seat Seat, force bool, alive func(Seat) bool) bool {
	if b.State == Closed {
		return true
	}
	b.Seats = slices.DeleteFunc(b.Seats, func(s Seat) bool { return !alive(s) })
	if slices.Contains(b.Seats, seat) { // The answer to an earlier request of it was lost.
		return true
	}
	if !force {
		if b.State == Open && now.Before(b.OpenUntil) {
			return false
		}
		if b.State == Open {
			b.enter(HalfOpen, now)
		}
		if b.Successes+len(b.Seats) >= MaxProbes {
			return false
		}
	}
	b.Seats = append(b.Seats, seat)
	return true
}

// ToOpen returns the number of failures in a row that open the breaker.
func (b *Breaker) ToOpen() int {
	if b.Threshold > 0 {
		return b.Threshold
	}
	return DefaultFailures
}

// open begins a window. Each window is twice as long as the one before it. A Retry-After of the
// target extends it.
func (b *Breaker) open(now, retryAfter time.Time) {
	b.enter(Open, now)
	b.Openings++
	window := b.window()
	until := now.Add(window + b.jitter(window/windowJitter))
	if retryAfter = earlier(retryAfter, now.Add(maxRetryAfter)); retryAfter.After(until) {
		until = retryAfter
	}
	b.OpenUntil, b.Failures, b.Seats = until.Truncate(time.Millisecond), 0, nil
}

// earlier returns the earlier of two instants.
func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

// FirstWindow returns the length of the first window without jitter.
func (b *Breaker) FirstWindow() time.Duration {
	if b.Window > 0 {
		return b.Window
	}
	return DefaultWindow
}

// window returns the length of the current window without jitter.
func (b *Breaker) window() time.Duration {
	window := b.FirstWindow()
	for range b.Openings - 1 {
		if window >= MaxWindow {
			break
		}
		window *= 2
	}
	return min(window, MaxWindow)
}

// jitter returns a part of a bound. It is a hash of host and window, so that it is deterministic.
func (b *Breaker) jitter(bound time.Duration) time.Duration {
	return share(bound, b.Scope[:], []byte(b.Host), []byte(strconv.Itoa(b.Openings)))
}

// Back returns when an endpoint that an open or half-open breaker held back at an instant comes due
// again. Endpoints come back one by one over a tenth of the window, at least 5 s, so that the end
// of a window is no herd.
func (b *Breaker) Back(endpoint [16]byte, now time.Time) time.Time {
	from := b.OpenUntil
	if from.Before(now) {
		from = now.Add(leastSpread).Truncate(time.Millisecond)
	}
	spread := max(leastSpread, b.window()/windowJitter)
	return from.Add(share(spread, endpoint[:]))
}

func (b *Breaker) enter(s State, now time.Time) {
	b.State, b.Since, b.Successes = s, now, 0
}

// share returns a part of a bound in whole milliseconds, by a hash.
func share(bound time.Duration, parts ...[]byte) time.Duration {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write(p)
	}
	return time.Duration(h.Sum64()%uint64(bound.Milliseconds()+1)) * time.Millisecond
}

// Equal reports whether two breakers are the same.
func (b *Breaker) Equal(o Breaker) bool {
	return b.Key == o.Key && b.Settings == o.Settings && b.State == o.State && b.Failures == o.Failures && b.Openings == o.Openings &&
		b.Successes == o.Successes && b.Since.Equal(o.Since) && b.OpenUntil.Equal(o.OpenUntil) && slices.Equal(b.Seats, o.Seats) &&
		b.HeldUntil.Equal(o.HeldUntil) && b.Concurrency.equal(o.Concurrency) && b.Rate.equal(o.Rate) && b.Latency == o.Latency
}

func (t Throttle) equal(o Throttle) bool {
	return t.Value == o.Value && t.Grown == o.Grown && t.Changed.Equal(o.Changed) && t.Cut.Equal(o.Cut)
}

// Probing asks for the admission of a claim as a probe.
type Probing struct {
	Key
	Seat
	// Force admits the claim at any time.
	Force bool
}
