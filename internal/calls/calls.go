// Package calls is the domain model of calls: requests that are sent once, now or later, without an
// endpoint. A call has the configuration of an endpoint without a schedule. Its runs have its ID as
// their endpoint, and its result is its newest run.
package calls

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"rubato/internal/endpoints"
	"rubato/internal/ids"
	"rubato/internal/runs"
)

// ID identifies a call. It is a UUIDv7, so that calls sort by the time of their creation.
type ID [16]byte

var idKind = ids.Kind{Prefix: "call_", Noun: "call"}

// NewID returns a fresh ID.
func NewID() ID { return ID(uuid.Must(uuid.NewV7())) }

// ParseID parses the form that String writes; see [ids.Kind.Parse].
func ParseID(s string) (ID, error) {
	id, err := idKind.Parse(s)
	return id, err
}

// String returns call_ and the UUID in its canonical form.
func (id ID) String() string { return idKind.String(id) }

// Call is a call. Fields that do not apply are zero.
type Call struct {
	ID        ID
	TenantID  [16]byte
	CreatedAt time.Time
	// Author is the name of the API key that created the call.
	Author string
	// NotBefore is the due time of the run, in whole milliseconds.
	NotBefore time.Time
	// Deadline is the latest start of an attempt; zero: none.
	Deadline time.Time
	// Spec has no schedule; see [Defaults].
	Spec endpoints.Spec
	// Callback is the URL that receives the result in another call; empty: none.
	Callback string
	// Key is the deduplication key; empty: none.
	Key string
	// SentKey is the Idempotency-Key of its requests; empty: the ID of its first attempt.
	SentKey string
	// DueFor is the due time that the templates of its request use; zero: NotBefore.
	DueFor time.Time
	// RerunOf is the recorded run that it repeats; zero: none. Reads do not set it.
	RerunOf [16]byte

	// State is [runs.Waiting], [runs.Running], or the status of the last attempt of a call that has
	// ended. Only reads set it.
	State runs.Status
	// RunID is the run in flight, or else the newest one that has ended; zero: none.
	RunID runs.ID
}

// KeyLife is how long a deduplication key stands for its call.
const KeyLife = 24 * time.Hour

// Defaults returns the default spec of a call.
func Defaults() endpoints.Spec {
	s := endpoints.Defaults()
	s.Name, s.Method = "call", "POST"
	s.Planner, s.Conditional, s.FollowNext = endpoints.PlannerOff, false, false
	return s
}

// resultAttempts is the number of attempts of a request that sends a result.
const resultAttempts = 5

// maxResult is the number of bytes of a response that are sent as part of a result.
const maxResult = 32 << 10

// result is the body of the request that sends the result of a call.
type result struct {
	ID         string      `json:"id"`
	RunID      string      `json:"runId"`
	Status     runs.Status `json:"status"`
	Reason     runs.Reason `json:"reasonCode"`
	StatusCode int         `json:"statusCode,omitempty"`
	Error      string      `json:"error,omitempty"`
	Attempts   int         `json:"attempts"`
	StartedAt  time.Time   `json:"startedAt"`
	FinishedAt time.Time   `json:"finishedAt"`
	// Body is the response as text, and BodyBase64 if it is none.
	Body       string `json:"body,omitempty"`
	BodyBase64 []byte `json:"bodyBase64,omitempty"`
	Truncated  bool   `json:"truncated,omitempty"`
}

// ResultCall returns the call that sends the result of an ended call to its callback. It is signed
// if the call was.
func ResultCall(e *endpoints.Endpoint, run runs.Run, now time.Time) (*Call, error) {
	o := run.Outcome
	body := o.Body[:min(len(o.Body), maxResult)]
	r := result{
		ID:         ID(e.ID).String(),
		RunID:      run.ID.String(),
		Status:     o.Status,
		Reason:     o.Reason,
		StatusCode: o.StatusCode,
		Error:      o.Error,
		Attempts:   run.Attempt,
		StartedAt:  run.StartedAt.UTC(),
		FinishedAt: run.FinishedAt.UTC(),
		Truncated:  o.Truncated || len(body) < len(o.Body),
	}
	if utf8.Valid(body) {
		r.Body = string(body)
	} else {
		r.BodyBase64 = body
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the result of call %s: %w", r.ID, err)
	}
	spec := Defaults()
	spec.URL, spec.Sign, spec.Idempotent = e.Call.Callback, e.Spec.Sign, true
	spec.Headers = map[string]string{"Content-Type": "application/json"}
	spec.Body = strings.ReplaceAll(string(raw), "{{", `{{"{{"}}`) // An answer must not become a template.
	spec.Retry.MaxAttempts = resultAttempts
	return &Call{
		ID:        NewID(),
		TenantID:  e.TenantID,
		CreatedAt: now,
		Author:    e.Call.Author,
		NotBefore: now.Truncate(time.Millisecond),
		Spec:      spec.Normalize(),
	}, nil
}
