package runs

import "time"

// Outcome is how a run ended, and what is known about the exchange.
type Outcome struct {
	Status        Status
	Reason        Reason
	MaybeSent     bool // a byte of the request may have reached the target
	StatusCode    int  // of the answer; 0 when none came
	Phases        Phases
	ResponseBytes int64  // bytes of body read, those between head and tail included
	Truncated     bool   // the body was longer than the endpoint keeps as its head
	ContentType   string // of the answer
	Body          []byte // the head of the answer's body, at most the endpoint's maxResponseKb
	BodyDigest    uint64 // [Digest] of Body; 0 where no body came, or a program that knew no digests wrote the run
	Tail          []byte // the end of a body that was longer than its head, at most the endpoint's responseTailKb
	Error         string // what went wrong, in words that are safe to show
	// RetryAfter is the instant that a 429 or 503 asked us to wait for, on the database's clock; zero when it did not.
	RetryAfter time.Time
	// Stop is why the target wants no more calls, in words that are safe to show; empty: it does not.
	Stop string
	// Validators are what the next request can ask with; nil: what is kept stays as it is.
	Validators *Validators
}

// Validators identify what a target answered, so that it need not answer the same again (RFC 9110 section 8.8). Both empty: it gave
// none.
type Validators struct {
	ETag         string
	LastModified string
	Request      uint64 // a fingerprint of the request that was answered: for another one they say nothing
}

// Phases says where the time of an exchange went. A phase that did not happen (a reused connection needs no dial) is 0.
type Phases struct {
	DNS, Connect, TLS, Wait, Transfer time.Duration
}

// CountsAsFailure reports whether the outcome is the target's failure. What infrastructure or a user ended says nothing about the
// target.
func (o Outcome) CountsAsFailure() bool { return o.Status == Failed || o.Status == TimedOut }

// Interrupted reports whether Rubato's own infrastructure ended the run, and its target did not: the worker died or stopped, lost its
// lock, or stood still so long after the start that nothing was sent.
func (o Outcome) Interrupted() bool {
	switch o.Reason {
	case WorkerLost, LockLost, Shutdown, StartExpired:
		return true
	default:
		return false
	}
}

// Retryable reports whether the outcome is of a class that another attempt may mend: no connection, no access token, no answer in time, a server's
// error, too many requests, an answer that its own rules call no success, or a run that was lost with its worker.
func (o Outcome) Retryable() bool {
	switch o.Reason {
	case ConnectError, DNSError, ConnectionLost, Timeout, SuccessRuleFailed, AuthFailed, WorkerLost, LockLost, Shutdown:
		return true
	case HTTPStatus:
		return o.Status == Failed && (o.StatusCode >= 500 || o.StatusCode == 429)
	case NotModified, TLSError, ProtocolError, ResponseTooLarge, RedirectLimit, RedirectDenied, EgressDenied, TemplateFailed, StartExpired, CanceledByUser, InternalError,
		OverlapSkipped, PauseSkipped, MisfireSkipped, SecretsUnavailable, SigningFailed:
		return false
	default:
		return false
	}
}
