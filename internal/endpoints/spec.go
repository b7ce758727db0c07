package endpoints

import (
	"time"

	"rubato/internal/governor"
	"rubato/internal/schedule"
)

// Spec is everything that a user configures of an endpoint, and the one place that lists its fields. The field tag is the name in the
// documents of the API, the database, exports and the audit log, and says what a zero means there: see [Spec.Document]. The
// validate tag holds the bounds that concern one field alone; the rules between fields are in validate.go. The database repeats
// what must never be in the function endpoint_is_sound.
type Spec struct {
	Name        string            `field:"name"        validate:"required,max=255,text"`
	Key         string            `field:"key,optional"         validate:"omitempty,max=100,slug"` // the user's own, unique per tenant
	Description string            `field:"description,omitzero" validate:"max=4000,prose"`
	Labels      map[string]string `field:"labels"      validate:"max=32,dive,keys,min=1,max=63,text,endkeys,max=255,text"`

	URL     string            `field:"url"     validate:"required"`
	Method  string            `field:"method"  validate:"oneof=GET HEAD POST PUT PATCH DELETE OPTIONS"`
	Headers map[string]string `field:"headers" validate:"max=64"`
	Body    string            `field:"body,omitzero"    validate:"maxbytes=262144"`
	Query   map[string]string `field:"query"   validate:"max=64"` // added to the URL
	Auth    *Auth             `field:"auth"`                      // nil: none
	TLS     *TLS              `field:"tls"`                       // nil: the system's roots, TLS 1.2 or later
	Sign    bool              `field:"sign"`                      // requests carry a signature by Standard Webhooks

	BaselineCron     string           `field:"baselineCron,optional"       validate:"max=255"` // exactly one of it and BaselineInterval
	BaselineInterval time.Duration    `field:"baselineIntervalMs,optional" validate:"omitempty,min=1s,max=8784h"`
	Timezone         string           `field:"timezone,optional"` // IANA; of the cron
	DST              DST              `field:"dst"`
	StartAt          time.Time        `field:"startAt,optional"` // holds back the first run; zero: at once
	CatchUp          governor.CatchUp `field:"catchUp"  validate:"oneof=once skip all"`

	MinInterval time.Duration `field:"minIntervalMs,optional" validate:"omitempty,min=1s,max=8784h"` // zero: none
	MaxInterval time.Duration `field:"maxIntervalMs,optional" validate:"omitempty,min=1s,max=8784h"` // zero: none
	Jitter      time.Duration `field:"jitterMs"      validate:"min=0s,max=24h"`

	Timeout          time.Duration `field:"timeoutMs,optional"          validate:"min=1ms,max=30m"` // of one request, answer included
	MaxExecutionTime time.Duration `field:"maxExecutionTimeMs" validate:"min=1s,max=30m"`           // deadline of an execution
	MaxResponseKB    int           `field:"maxResponseKb"      validate:"min=0,max=1024"`           // how much of an answer is read and kept
	FollowRedirects  int           `field:"followRedirects"    validate:"min=0,max=10"`
	Success          string        `field:"success"            validate:"max=255"` // statuses, such as "2xx,304"
	Retry            Retry         `field:"retry"`
	Idempotent       bool          `field:"idempotent"` // the request may be sent again although it may have arrived

	SuccessRules   []AnswerRule `field:"successRules"   validate:"max=16"`       // beside Success, all of them
	ResponseTailKB int          `field:"responseTailKb" validate:"min=0,max=64"` // how much of an answer's end is kept beside its head
	Redact         []RedactRule `field:"redact"         validate:"max=32"`
	Conditional    bool         `field:"conditional"` // ask only for what changed, by the validators of the last answer

	Planner Authority `field:"planner" validate:"oneof=off observe suggest act"`
}

// DST says what a cron does with local times that a clock change skips or repeats.
type DST struct {
	Gap     schedule.GapPolicy     `field:"gap"     validate:"oneof=run skip"`
	Overlap schedule.OverlapPolicy `field:"overlap" validate:"oneof=once both"`
}

// Retry says how often one due time is tried, and how long to wait in between.
type Retry struct {
	MaxAttempts int           `field:"maxAttempts"  validate:"min=1,max=10"`
	Backoff     time.Duration `field:"backoffMs"    validate:"min=1ms,max=1h"` // bound of the first wait; doubles
	MaxBackoff  time.Duration `field:"maxBackoffMs" validate:"min=1ms,max=24h"`
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
