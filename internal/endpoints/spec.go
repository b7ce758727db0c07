package endpoints

import (
	"time"

	"rubato/internal/governor"
	"rubato/internal/schedule"
)

// Spec is everything that a user configures of an endpoint, and the one place that lists its fields. The json tag is the name in the
// documents of the API, the database, exports and the audit log. The zero tag says what a given zero means: see [ReadSpec]. The
// validate tag holds the bounds that concern one field alone; the rules between fields are in validate.go. The database repeats
// what must never be in the function endpoint_is_sound.
type Spec struct {
	Name        string            `json:"name"        validate:"required,max=255,text"`
	Key         string            `json:"key,omitzero" zero:"refused"         validate:"omitempty,max=100,slug"` // the user's own, unique per tenant
	Description string            `json:"description,omitzero" validate:"max=4000,prose"`
	Labels      map[string]string `json:"labels,omitempty"      validate:"max=32,dive,keys,min=1,max=63,text,endkeys,max=255,text"`
	RunbookURL  string            `json:"runbookUrl,omitzero" zero:"refused" validate:"omitempty,max=2048,text,http_url"` // shown with failures

	URL     string            `json:"url"     validate:"required"`
	Method  string            `json:"method"  validate:"oneof=GET HEAD POST PUT PATCH DELETE OPTIONS"`
	Headers map[string]string `json:"headers,omitempty" validate:"max=64"`
	Body    string            `json:"body,omitzero"    validate:"maxbytes=262144"`
	Query   map[string]string `json:"query,omitempty"   validate:"max=64"` // added to the URL
	Auth    *Auth             `json:"auth,omitempty"`                      // nil: none
	TLS     *TLS              `json:"tls,omitempty"`                       // nil: the system's roots, TLS 1.2 or later
	Sign    bool              `json:"sign"`                                // requests carry a signature by Standard Webhooks

	BaselineCron     string           `json:"baselineCron,omitzero" zero:"refused"       validate:"max=255"` // exactly one of it and BaselineInterval
	BaselineInterval time.Duration    `json:"baselineIntervalMs,omitzero" zero:"refused" validate:"omitempty,min=1s,max=8784h"`
	Timezone         string           `json:"timezone,omitzero" zero:"refused"` // IANA; of the cron
	DST              DST              `json:"dst"`
	StartAt          time.Time        `json:"startAt,omitzero" zero:"refused"` // holds back the first run; zero: at once
	CatchUp          governor.CatchUp `json:"catchUp"  validate:"oneof=once skip all"`

	MinInterval time.Duration `json:"minIntervalMs,omitzero" zero:"refused" validate:"omitempty,min=1s,max=8784h"` // zero: none
	MaxInterval time.Duration `json:"maxIntervalMs,omitzero" zero:"refused" validate:"omitempty,min=1s,max=8784h"` // zero: none
	Jitter      time.Duration `json:"jitterMs"      validate:"min=0s,max=24h"`

	Timeout          time.Duration `json:"timeoutMs,omitzero" zero:"refused"          validate:"min=1ms,max=30m"` // of one request, answer included
	MaxExecutionTime time.Duration `json:"maxExecutionTimeMs" validate:"min=1s,max=30m"`                          // deadline of an execution
	MaxResponseKB    int           `json:"maxResponseKb"      validate:"min=0,max=1024"`                          // how much of an answer is read and kept
	FollowRedirects  int           `json:"followRedirects"    validate:"min=0,max=10"`
	Success          string        `json:"success"            validate:"max=255"` // statuses, such as "2xx,304"
	Retry            Retry         `json:"retry"`
	Idempotent       bool          `json:"idempotent"` // the request may be sent again although it may have arrived

	SuccessRules   []AnswerRule `json:"successRules,omitempty"   validate:"max=16"` // beside Success, all of them
	ResponseTailKB int          `json:"responseTailKb" validate:"min=0,max=64"`     // how much of an answer's end is kept beside its head
	Redact         []RedactRule `json:"redact,omitempty"         validate:"max=32"`
	Conditional    bool         `json:"conditional"` // ask only for what changed, by the validators of the last answer

	Planner Authority `json:"planner" validate:"oneof=off observe suggest act"`
}

// DST says what a cron does with local times that a clock change skips or repeats.
type DST struct {
	Gap     schedule.GapPolicy     `json:"gap"     validate:"oneof=run skip"`
	Overlap schedule.OverlapPolicy `json:"overlap" validate:"oneof=once both"`
}

// Retry says how often one due time is tried, and how long to wait in between.
type Retry struct {
	MaxAttempts int           `json:"maxAttempts"  validate:"min=1,max=10"`
	Backoff     time.Duration `json:"backoffMs"    validate:"min=1ms,max=1h"` // bound of the first wait; doubles
	MaxBackoff  time.Duration `json:"maxBackoffMs" validate:"min=1ms,max=24h"`
}

const (
	defaultExecutionTime = 60 * time.Second
	defaultTimeout       = 30 * time.Second
)

// Defaults returns a Spec with the documented default of every field that has one, except Timeout, whose default depends on
// MaxExecutionTime: see [Spec.Normalize].
func Defaults() Spec {
	return Spec{
		Method:           "GET",
		Timezone:         "UTC",
		DST:              DST{Gap: schedule.GapRun, Overlap: schedule.OverlapOnce},
		CatchUp:          governor.CatchUpOnce,
		MaxExecutionTime: defaultExecutionTime,
		MaxResponseKB:    100,
		Success:          "2xx",
		Retry:            Retry{MaxAttempts: 1, Backoff: time.Second, MaxBackoff: time.Minute},
		Planner:          PlannerObserve,
	}
}

// Normalize returns the spec as it is stored: the dependent default filled in, instants in UTC and whole milliseconds. It does
// not validate.
func (s Spec) Normalize() Spec {
	if s.Timeout == 0 {
		s.Timeout = min(defaultTimeout, s.MaxExecutionTime)
	}
	if !s.StartAt.IsZero() {
		s.StartAt = s.StartAt.UTC().Truncate(time.Millisecond)
	}
	return s
}

// SafeMethod reports whether the method is safe by RFC 9110 section 9.2.1: it asks for nothing but an answer.
func (s Spec) SafeMethod() bool {
	switch s.Method {
	case "GET", "HEAD", "OPTIONS":
		return true
	default:
		return false
	}
}

// IdempotentMethod reports whether the method is idempotent by RFC 9110 section 9.2.2.
func (s Spec) IdempotentMethod() bool {
	switch s.Method {
	case "GET", "HEAD", "PUT", "DELETE", "OPTIONS":
		return true
	default:
		return false
	}
}

// ParseCron parses the cron baseline for one endpoint; nil for an interval. The error is an [errs.Invalid] that names fields.
func (s Spec) ParseCron(id ID) (*schedule.Cron, error) {
	if s.BaselineCron == "" {
		return nil, nil //nolint:nilnil // No cron is no error: the interval is the baseline.
	}
	return schedule.Parse(s.cron(id))
}

func (s Spec) cron(id ID) schedule.Spec {
	return schedule.Spec{Expression: s.BaselineCron, Zone: s.Timezone, Gap: s.DST.Gap, Overlap: s.DST.Overlap, ID: id}
}
