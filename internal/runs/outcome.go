package runs

import "time"

// Outcome is the result of a run, and the known facts of its HTTP exchange.
type Outcome struct {
	Status Status
	Reason Reason
	// MaybeSent reports that a byte of the request may have reached the target.
	MaybeSent     bool
	StatusCode    int // of the response; 0: none
	Phases        Phases
	ResponseBytes int64 // bytes of the body, including those between head and tail
	// Truncated reports that the body was longer than the stored head.
	Truncated   bool
	ContentType string // of the response
	// Body is the head of the response body, at most the endpoint's maxResponseKb.
	Body []byte
	// BodyDigest is the digest of the compared part of the answer; 0 without a body, or in rows
	// from before digests existed.
	BodyDigest uint64
	// Tail is the end of a body that was longer than its head, at most the endpoint's
	// responseTailKb.
	Tail []byte
	// Error is an error text that is safe to show.
	Error string
	// RetryAfter is the end of the Retry-After of a 429 or 503, on the database's clock; zero:
	// none.
	RetryAfter time.Time
	// OpenUntil is when the endpoint comes due again because the breaker of its host held it back;
	// zero: it did not.
	OpenUntil time.Time
	// TargetNext is the instant at which the target asked for the next run, on the database's
	// clock; zero: none.
	TargetNext time.Time
	// FreshUntil is the end of the freshness of the answer, on the database's clock; zero: unknown,
	// or the endpoint does not ask for it.
	FreshUntil time.Time
	// Stop is the reason why the target wants no further requests, safe to show; empty: none.
	Stop string
	// NoiseWatch is the encoded state of the search for noise; nil keeps the stored one.
	NoiseWatch []byte
	// Noise are the members that were found to be noise.
	Noise []Noise
	// LookAgain asks for the next look soon, because the search for noise looks closer.
	LookAgain bool
	// Validators are the validators for the next conditional request; nil keeps the stored ones.
	Validators *Validators
}

// Validators are the validators of a response for conditional requests (RFC 9110 section 8.8). Both
// empty: the response had none.
type Validators struct {
	ETag         string
	LastModified string
	// Request is a fingerprint of the request. The validators are valid for that request only.
	Request uint64
}

// Phases is the duration of each phase of an exchange. A phase that did not happen is 0, such as
// the dial on a reused connection.
type Phases struct {
	DNS, Connect, TLS, Wait, Transfer time.Duration
}

// CountsAsFailure reports whether the target failed. Results by infrastructure or a user do not
// count.
func (o Outcome) CountsAsFailure() bool { return o.Status == Failed || o.Status == TimedOut }

// Interrupted reports whether Rubato's own infrastructure ended the run: the worker died or
// stopped, lost its lock, or was too late to send the request.
func (o Outcome) Interrupted() bool {
	switch o.Reason {
	case WorkerLost, LockLost, Shutdown, StartExpired:
		return true
	default:
		return false
	}
}

// Retryable reports whether a retry may succeed. That holds for connection errors, missing access
// tokens, timeouts, server errors, 429, a broken success rule, a reported failure, and runs lost
// with their worker.
func (o Outcome) Retryable() bool {
	switch o.Reason {
	case ConnectError, DNSError, ConnectionLost, Timeout, CallbackFailed, SuccessRuleFailed, AuthFailed, WorkerLost, LockLost, Shutdown:
		return true
	case HTTPStatus:
		return o.Status == Failed && (o.StatusCode >= 500 || o.StatusCode == 429)
	case NotModified, NoStatusURL, TLSError, ProtocolError, ResponseTooLarge, RedirectLimit, RedirectDenied, EgressDenied, TemplateFailed, StartExpired, CanceledByUser, InternalError,
		OverlapSkipped, PauseSkipped, MisfireSkipped, CircuitOpen, Unroutable, SecretsUnavailable, SigningFailed:
		return false
	default:
		return false
	}
}

// Noise is a member of an endpoint's answers that was found to differ without a change.
type Noise struct {
	// Path is its JSONPath.
	Path string
	// Pairs is the number of successive answers in which it differed from the one before.
	Pairs int
	// Gap is the mean time between the answers of the last three pairs, in whole milliseconds.
	Gap time.Duration
}
