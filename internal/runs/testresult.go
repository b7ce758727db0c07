package runs

import "time"

// TestResult is what came of a request that was sent as a run of an endpoint sends it, without being one: no schedule, history or failure
// count knows of it. Secrets are hidden in all of it.
type TestResult struct {
	ID       ID        // what the target saw as the ID of the run; no run has it
	SentAt   time.Time // database time
	Duration time.Duration
	Outcome  Outcome // of which the body and its tail may be shorter than a run would keep them
	// BrokenRule is the index of the success rule that the answer breaks; -1: none.
	BrokenRule int
	Answer     Header // of the answer; nil: none came
	Request    *SentRequest
}

// Header is the values of header fields, by canonical name.
type Header map[string][]string

// SentRequest is a request as it was sent.
type SentRequest struct {
	Method string
	URL    string
	Header Header // without what the connection adds, such as Host and Content-Length
	Body   []byte // the head of it
	Cut    bool   // the body is longer
}
