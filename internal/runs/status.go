package runs

// Status is the state of a run. A one-off run is waiting first. A run is running once, then ends in
// exactly one final status and never changes again.
type Status string

// The statuses. Waiting runs are one-off items, running ones are in live_runs, all others in the
// history.
const (
	Waiting   Status = "waiting" // one-off run or its retry, not started
	Running   Status = "running"
	Succeeded Status = "succeeded" // the response satisfied the success rules
	Failed    Status = "failed"    // the target answered otherwise or could not be reached
	TimedOut  Status = "timed_out" // no complete response within the timeout
	Canceled  Status = "canceled"  // stopped by a user
	Lost      Status = "lost"      // outcome unknown: a request may have been sent, and its worker is gone
	Skipped   Status = "skipped"   // certainly not sent: skipped due times, by the rule in the reason
)

// Statuses returns every status from the start of a run, running first.
func Statuses() []Status {
	return []Status{Running, Succeeded, Failed, TimedOut, Canceled, Lost, Skipped}
}

// Terminal reports whether the run is over.
func (s Status) Terminal() bool { return s != Running && s != Waiting }

// Reason is the stable code of the cause of a status.
type Reason string

// The reasons. Those of infrastructure (WorkerLost, LockLost, Shutdown) do not concern the target,
// so they never change the failure count.
const (
	HTTPStatus Reason = "http_status" // the status code decided: succeeded or failed
	// SuccessRuleFailed is failed: the status code was a success, but the response broke a success
	// rule.
	SuccessRuleFailed Reason = "success_rule_failed"
	NotModified       Reason = "not_modified" // succeeded: the target answered 304
	Timeout           Reason = "timeout"      // timed_out
	// CallbackFailed is failed: the target of a suspended run reported its failure.
	CallbackFailed Reason = "callback_failed"
	// NoStatusURL is failed: the target answered 202, and no callback and no status URL can end the
	// run.
	NoStatusURL    Reason = "no_status_url"
	DNSError       Reason = "dns_error"       // the name did not resolve
	ConnectError   Reason = "connect_error"   // no connection
	TLSError       Reason = "tls_error"       // no trusted connection
	ConnectionLost Reason = "connection_lost" // the connection broke after the request may have been sent
	ProtocolError  Reason = "protocol_error"  // the response was not HTTP
	// ResponseTooLarge is failed: the response header has too many bytes or fields. A body that is
	// too long is truncated instead.
	ResponseTooLarge Reason = "response_too_large"
	RedirectLimit    Reason = "redirect_limit"  // more redirects than the endpoint allows
	RedirectDenied   Reason = "redirect_denied" // a redirect to a forbidden target
	EgressDenied     Reason = "egress_denied"   // the egress guard refused the address
	TemplateFailed   Reason = "template_failed" // a template of the request failed: never sent
	AuthFailed       Reason = "auth_failed"     // no access token: never sent
	WorkerLost       Reason = "worker_lost"     // the worker died or stopped
	LockLost         Reason = "lock_lost"       // the worker lost its lock and canceled the request
	StartExpired     Reason = "start_expired"   // too late after the commit of its start: never sent
	Shutdown         Reason = "shutdown"        // the worker stopped before the response arrived
	CanceledByUser   Reason = "canceled_by_user"
	InternalError    Reason = "internal_error" // internal error of Rubato
	// SecretsUnavailable is skipped: the worker lacks the key of the tenant's secrets, so nothing
	// was sent.
	SecretsUnavailable Reason = "secrets_unavailable"
	// SigningFailed is failed: the request could not be signed, so nothing was sent. It counts as a
	// failure, because the endpoint's configuration is wrong.
	SigningFailed  Reason = "signing_failed"
	OverlapSkipped Reason = "overlap_skipped" // due while the endpoint's previous run was live
	PauseSkipped   Reason = "pause_skipped"   // due while the endpoint was paused
	MisfireSkipped Reason = "misfire_skipped" // due, but no worker ran it in time
	DeadlinePassed Reason = "deadline_passed" // the deadline of a one-off run passed before its start
	// CircuitOpen is skipped: the breaker of the target's host was open.
	CircuitOpen Reason = "circuit_open"
	// Unroutable is skipped: no active worker had the required tags.
	Unroutable Reason = "unroutable"
	Withdrawn  Reason = "withdrawn" // the endpoint was paused or archived before the start of its one-off run
)

// Reasons returns every reason.
func Reasons() []Reason {
	return []Reason{
		HTTPStatus, SuccessRuleFailed, NotModified, Timeout, CallbackFailed, NoStatusURL, DNSError, ConnectError, TLSError, ConnectionLost, ProtocolError, ResponseTooLarge, RedirectLimit,
		RedirectDenied, EgressDenied, TemplateFailed, AuthFailed, WorkerLost, LockLost, StartExpired, Shutdown, CanceledByUser, InternalError, OverlapSkipped,
		PauseSkipped, MisfireSkipped, DeadlinePassed, CircuitOpen, Unroutable, Withdrawn, SecretsUnavailable, SigningFailed,
	}
}
