package runs

import "time"

// Outcome is how a run ended, and what is known about the exchange.
type Outcome struct {
	Status        Status
	Reason        Reason
	MaybeSent     bool // a byte of the request may have reached the target
	StatusCode    int  // of the answer; 0 when none came
	Phases        Phases
	ResponseBytes int64  // bytes of body read
	Truncated     bool   // the body was longer than the endpoint keeps
	ContentType   string // of the answer
	Body          []byte // the head of the answer's body, at most the endpoint's maxResponseKb
	BodyDigest    uint64 // [Digest] of Body; 0 where no body came, or a program that knew no digests wrote the run
	Error         string // what went wrong, in words that are safe to show
	// RetryAfter is the instant that a 429 or 503 asked us to wait for, on the database's clock; zero when it did not.
	RetryAfter time.Time
}

// Phases says where the time of an exchange went. A phase that did not happen (a reused connection needs no dial) is 0.
type Phases struct {
	DNS, Connect, TLS, Wait, Transfer time.Duration
}

// CountsAsFailure reports whether the outcome is the target's failure. What infrastructure or a user ended says nothing about the
// target.
func (o Outcome) CountsAsFailure() bool { return o.Status == Failed || o.Status == TimedOut }

// Retryable reports whether the outcome is of a class that another attempt may mend: no connection, no answer in time, a server's
// error, too many requests, or a run that was lost with its worker.
func (o Outcome) Retryable() bool {
	switch o.Reason {
	case ConnectError, DNSError, ConnectionLost, Timeout, WorkerLost, LockLost, Shutdown:
		return true
	case HTTPStatus:
		return o.Status == Failed && (o.StatusCode >= 500 || o.StatusCode == 429)
	case TLSError, ProtocolError, RedirectLimit, RedirectDenied, EgressDenied, StartExpired, CanceledByUser, InternalError,
		OverlapSkipped, PauseSkipped, MisfireSkipped:
		return false
	default:
		return false
	}
}
