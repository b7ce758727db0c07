package runs

// Status says where a run stands. A one-off run is waiting first. A run is running once, then ends in exactly one other status and never
// changes again.
type Status string

// The statuses. Waiting is found among the one-off items only, Running among the live runs only, the others in the history only.
const (
	Waiting   Status = "waiting" // a one-off run, or another attempt of one, that has not started
	Running   Status = "running"
	Succeeded Status = "succeeded" // the answer satisfied the endpoint's success rule
	Failed    Status = "failed"    // the target answered otherwise, or could not be reached
	TimedOut  Status = "timed_out" // no complete answer inside the timeout
	Canceled  Status = "canceled"  // stopped by a user
	Lost      Status = "lost"      // outcome unknown: a request may have left, and nobody who could tell is left
	Skipped   Status = "skipped"   // no byte of a request left, for certain: due times that passed without one, by a rule that the reason names
)

// Statuses returns every status that a run has from its start on, the live one first.
func Statuses() []Status {
	return []Status{Running, Succeeded, Failed, TimedOut, Canceled, Lost, Skipped}
}

// Terminal reports whether a run of this status is over.
func (s Status) Terminal() bool { return s != Running && s != Waiting }

// Reason says why a run has its status, as a stable code.
type Reason string

// The reasons. Those of infrastructure (WorkerLost, LockLost, Shutdown) say nothing about the target, so they never move an
// endpoint's failure count.
const (
	HTTPStatus Reason = "http_status" // the status code decided: succeeded or failed
	// SuccessRuleFailed is failed: the status code was one of success, and the answer broke one of the endpoint's rules for it.
	SuccessRuleFailed Reason = "success_rule_failed"
	NotModified       Reason = "not_modified"    // succeeded: the target said that nothing changed since the last answer
	Timeout           Reason = "timeout"         // timed_out
	DNSError          Reason = "dns_error"       // the name did not resolve
	ConnectError      Reason = "connect_error"   // no connection
	TLSError          Reason = "tls_error"       // no trusted connection
	ConnectionLost    Reason = "connection_lost" // the connection broke after a byte of the request may have left
	ProtocolError     Reason = "protocol_error"  // the answer was not HTTP
	// ResponseTooLarge is failed: the header of the answer has more bytes or fields than may be. A body that is too long is cut and flagged.
	ResponseTooLarge Reason = "response_too_large"
	RedirectLimit    Reason = "redirect_limit"  // one redirect more than the endpoint follows
	RedirectDenied   Reason = "redirect_denied" // a redirect to where no call may go
	EgressDenied     Reason = "egress_denied"   // the guard refused the address
	TemplateFailed   Reason = "template_failed" // a template of the request could not be filled in: never sent
	AuthFailed       Reason = "auth_failed"     // no access token for the request: never sent
	WorkerLost       Reason = "worker_lost"     // the worker went silent or said goodbye
	LockLost         Reason = "lock_lost"       // the worker lost its lock and canceled the request
	StartExpired     Reason = "start_expired"   // too late after its start was committed: never sent
	Shutdown         Reason = "shutdown"        // the worker stopped before the answer came
	CanceledByUser   Reason = "canceled_by_user"
	InternalError    Reason = "internal_error" // a fault of ours ended the run
	// SecretsUnavailable is skipped: the worker lacks the key of the tenant's secrets, so nothing was sent.
	SecretsUnavailable Reason = "secrets_unavailable"
	// SigningFailed is failed: the request could not be signed, so nothing was sent. It counts against the endpoint, which asks for what
	// cannot be had.
	SigningFailed  Reason = "signing_failed"
	OverlapSkipped Reason = "overlap_skipped" // due while the endpoint's own run was still live
	PauseSkipped   Reason = "pause_skipped"   // due while the endpoint was paused
	MisfireSkipped Reason = "misfire_skipped" // due, and nobody ran it in time
	DeadlinePassed Reason = "deadline_passed" // a one-off run whose deadline passed before it could start
	Withdrawn      Reason = "withdrawn"       // a one-off run whose endpoint was paused or archived while it waited
)

// Reasons returns every reason.
func Reasons() []Reason {
	return []Reason{
		HTTPStatus, SuccessRuleFailed, NotModified, Timeout, DNSError, ConnectError, TLSError, ConnectionLost, ProtocolError, ResponseTooLarge, RedirectLimit,
		RedirectDenied, EgressDenied, TemplateFailed, AuthFailed, WorkerLost, LockLost, StartExpired, Shutdown, CanceledByUser, InternalError, OverlapSkipped,
		PauseSkipped, MisfireSkipped, DeadlinePassed, Withdrawn, SecretsUnavailable, SigningFailed,
	}
}
