package runs

import "time"

// TestResult is the result of a test request. It is sent like a run, but schedule, history and
// failure count do not record it. Secrets are redacted.
type TestResult struct {
	ID       ID        // run ID that the target received; no run has it
	SentAt   time.Time // database time
	Duration time.Duration
	// Outcome may have a shorter body and tail than a run would store.
	Outcome Outcome
	// BrokenRule is the index of the broken success rule; -1: none.
	BrokenRule int
	Answer     Header // response header; nil: no response
	Request    *SentRequest
}

// Header holds the values of header fields by canonical name.
type Header map[string][]string

// SentRequest is a request as it was sent.
type SentRequest struct {
	Method string
	URL    string
	Header Header // without fields of the connection, such as Host and Content-Length
	Body   []byte // head of the body
	Cut    bool   // body is longer
}
