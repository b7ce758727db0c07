package endpoints

import (
	"time"

	"rubato/internal/governor"
	"rubato/internal/schedule"
)

// Spec is the configuration of an endpoint, and the one place that lists its fields.
//
// Tags: json is the name of the field in the API, the database, exports and the audit log. zero
// says how [ReadSpec] reads a given zero. validate holds the bounds of one field; the rules between
// fields are in validate.go. The SQL function endpoint_is_sound repeats the invariants, so that a
// write past the API cannot break them.
type Spec struct {
	Name string `json:"name"        validate:"required,max=255,text"`
	// Key is the user's own identifier, unique per tenant.
	Key         string            `json:"key,omitzero" zero:"refused"         validate:"omitempty,max=100,slug"`
	Description string            `json:"description,omitzero" validate:"max=4000,prose"`
	Labels      map[string]string `json:"labels,omitempty"      validate:"max=32,dive,keys,min=1,max=63,text,endkeys,max=255,text"`
	// RunbookURL is shown with failures.
	RunbookURL string `json:"runbookUrl,omitzero" zero:"refused" validate:"omitempty,max=2048,text,http_url"`

	URL     string            `json:"url"     validate:"required"`
	Method  string            `json:"method"  validate:"oneof=GET HEAD POST PUT PATCH DELETE OPTIONS"`
	Headers map[string]string `json:"headers,omitempty" validate:"max=64"`
	Body    string            `json:"body,omitzero"    validate:"maxbytes=262144"`
	// Query holds parameters that are added to the URL.
	Query map[string]string `json:"query,omitempty"   validate:"max=64"`
	// Auth is nil for requests without credentials.
	Auth *Auth `json:"auth,omitempty"`
	// TLS is nil for the system's roots and TLS 1.2 or later.
	TLS *TLS `json:"tls,omitempty"`
	// Sign adds a signature by Standard Webhooks to each request.
	Sign bool `json:"sign"`

	// Exactly one of BaselineCron and BaselineInterval is set.
	BaselineCron     string        `json:"baselineCron,omitzero" zero:"refused"       validate:"max=255"`
	BaselineInterval time.Duration `json:"baselineIntervalMs,omitzero" zero:"refused" validate:"omitempty,min=1s,max=8784h"`
	// Timezone is the IANA name of the cron's zone.
	Timezone string `json:"timezone,omitzero" zero:"refused"`
	DST      DST    `json:"dst"`
	// StartAt delays the first run; zero: no delay.
	StartAt time.Time `json:"startAt,omitzero" zero:"refused"`
	// EndAt ends the schedule: no due time is at or after it; zero: no end.
	EndAt time.Time `json:"endAt,omitzero" zero:"refused"`
	// MaxRuns ends the schedule after so many due times had a run, counted since the field was set;
	// zero: no limit. Attempts of a due time count once, and one-off runs and skipped due times not
	// at all.
	MaxRuns int              `json:"maxRuns,omitzero" zero:"refused" validate:"omitempty,min=1,max=1000000000"`
	CatchUp governor.CatchUp `json:"catchUp"  validate:"oneof=once skip all"`
	// Overlap is the policy for due times that pass while a run is in flight.
	Overlap governor.Overlap `json:"overlap"  validate:"oneof=skip queue allow"`

	// MinInterval is the lower clamp on the time between runs; zero: none.
	MinInterval time.Duration `json:"minIntervalMs,omitzero" zero:"refused" validate:"omitempty,min=1s,max=8784h"`
	// MaxInterval is the upper clamp on the time between runs; zero: none.
	MaxInterval time.Duration `json:"maxIntervalMs,omitzero" zero:"refused" validate:"omitempty,min=1s,max=8784h"`
	// Budget is a number of runs per period, such as 600/h; empty: none.
	Budget string        `json:"budget,omitzero" zero:"refused" validate:"omitempty,budget"`
	Jitter time.Duration `json:"jitterMs"      validate:"min=0s,max=24h"`

	// Timeout is the deadline of one request, including its answer.
	Timeout time.Duration `json:"timeoutMs,omitzero" zero:"refused"          validate:"min=1ms,max=30m"`
	// MaxExecutionTime is the deadline of an execution.
	MaxExecutionTime time.Duration `json:"maxExecutionTimeMs" validate:"min=1s,max=30m"`
	// MaxResponseKB is the number of KiB of an answer that are read and stored.
	MaxResponseKB   int `json:"maxResponseKb"      validate:"min=0,max=1024"`
	FollowRedirects int `json:"followRedirects"    validate:"min=0,max=10"`
	// Success lists status codes and classes, such as "2xx,304".
	Success string `json:"success"            validate:"max=255"`
	// FollowNext lets a successful answer set the next run by the header Rubato-Next.
	FollowNext bool `json:"followNext"`
	// FollowMaxAge puts off the next run until a successful answer is stale by Cache-Control.
	FollowMaxAge bool  `json:"followMaxAge"`
	Retry        Retry `json:"retry"`
	// Async suspends the runs of targets that answer 202.
	Async Async `json:"async"`
	// Idempotent permits sending the request again although it may have arrived.
	Idempotent bool `json:"idempotent"`
	// DeadLetter keeps recurring runs that were given up as dead letters. One-off runs always are.
	DeadLetter bool `json:"deadLetter"`

	// StartChains starts chains after runs: each entry is an outcome and the name of a chain, such
	// as failed=cleanup.
	StartChains []string `json:"startChains,omitempty" validate:"max=8"`

	// Breaker lets the circuit breaker of the target's host hold back requests.
	Breaker bool `json:"breaker"`

	// RequiredTags are tags that a worker must have to run the endpoint.
	RequiredTags []string `json:"requiredTags,omitempty" validate:"max=8"`
	// PreferredTags are tags of the workers that get the first chance to run it.
	PreferredTags []string `json:"preferredTags,omitempty" validate:"max=8"`

	// Priority orders the due runs of the tenant while they wait.
	Priority PriorityName `json:"priority" validate:"oneof=low normal high critical"`

	// SuccessRules must all hold, in addition to Success.
	SuccessRules []AnswerRule `json:"successRules,omitempty"   validate:"max=16"`
	// ResponseTailKB is the number of KiB that are stored from the end of an answer, in addition to
	// its head.
	ResponseTailKB int          `json:"responseTailKb" validate:"min=0,max=64"`
	Redact         []RedactRule `json:"redact,omitempty"         validate:"max=32"`
	// Conditional sends the validators of the last answer (ETag, Last-Modified), so that an
	// unchanged target answers 304. It takes effect only if [Spec.AsksConditionally].
	Conditional bool `json:"conditional"`
	// ChangeKey lists the JSONPaths that alone are compared from one answer to the next.
	ChangeKey []string `json:"changeKey,omitempty" validate:"max=64"`
	// Ignore lists the JSONPaths that are not compared.
	Ignore []string `json:"ignore,omitempty" validate:"max=64"`

	Planner Authority `json:"planner" validate:"oneof=off observe suggest act"`
}

// DST is the policy of a cron for local times that a clock change skips or repeats.
type DST struct {
	Gap     schedule.GapPolicy     `json:"gap"     validate:"oneof=run skip"`
	Overlap schedule.OverlapPolicy `json:"overlap" validate:"oneof=once both"`
}

// Retry is the retry policy of one due time: the number of attempts and the backoff between them.
type Retry struct {
	MaxAttempts int `json:"maxAttempts"  validate:"min=1,max=10"`
	// Backoff bounds the first wait. The bound doubles per attempt up to MaxBackoff.
	Backoff    time.Duration `json:"backoffMs"    validate:"min=1ms,max=1h"`
	MaxBackoff time.Duration `json:"maxBackoffMs" validate:"min=1ms,max=24h"`
}

// Async is the policy for runs that end later than their answer.
type Async struct {
	// Timeout is the time that a run waits for its end after the answer 202; zero: a 202 ends the
	// run.
	Timeout  time.Duration  `json:"timeoutMs,omitzero" zero:"refused" validate:"omitempty,min=1s,max=168h"`
	Callback CallbackPolicy `json:"callback" validate:"oneof=url signed none"`
}

// CallbackPolicy says how a target reports the end of an asynchronous run, beside its status URL.
type CallbackPolicy string

// The policies.
const (
	CallbackURL    CallbackPolicy = "url"    // to a URL with a token, which each request names
	CallbackSigned CallbackPolicy = "signed" // to that URL, with a signature by Standard Webhooks
	CallbackNone   CallbackPolicy = "none"   // not at all
)

const (
	defaultExecutionTime = 60 * time.Second
	defaultTimeout       = 30 * time.Second
)

// Defaults returns a Spec with the documented default of every field that has one. Timeout is the
// exception, because its default depends on MaxExecutionTime; see [Spec.Normalize].
func Defaults() Spec {
	return Spec{
		Method:           "GET",
		Timezone:         "UTC",
		DST:              DST{Gap: schedule.GapRun, Overlap: schedule.OverlapOnce},
		CatchUp:          governor.CatchUpOnce,
		Overlap:          governor.OverlapSkip,
		MaxExecutionTime: defaultExecutionTime,
		MaxResponseKB:    100,
		Success:          "2xx",
		FollowNext:       true,
		Conditional:      true,
		Breaker:          true,
		Retry: Retry{
			MaxAttempts: 1,
			Backoff:     time.Second,
			MaxBackoff:  time.Minute,
		},
		Async:    Async{Callback: CallbackURL},
		Priority: NormalPriority,
		Planner:  PlannerObserve,
	}
}

// Normalize returns the spec in its stored form: the default of Timeout filled in, instants in UTC
// and whole milliseconds. It does not validate.
func (s Spec) Normalize() Spec {
	if s.Timeout == 0 {
		s.Timeout = min(defaultTimeout, s.MaxExecutionTime)
	}
	if !s.StartAt.IsZero() {
		s.StartAt = s.StartAt.UTC().Truncate(time.Millisecond)
	}
	if !s.EndAt.IsZero() {
		s.EndAt = s.EndAt.UTC().Truncate(time.Millisecond)
	}
	return s
}

// SafeMethod reports whether the method is safe by RFC 9110 section 9.2.1, which means that it only
// reads.
func (s *Spec) SafeMethod() bool {
	switch s.Method {
	case "GET", "HEAD", "OPTIONS":
		return true
	default:
		return false
	}
}

// IdempotentMethod reports whether the method is idempotent by RFC 9110 section 9.2.2.
func (s *Spec) IdempotentMethod() bool {
	switch s.Method {
	case "GET", "HEAD", "PUT", "DELETE", "OPTIONS":
		return true
	default:
		return false
	}
}

// Scheduled reports whether there is a baseline. A call has none.
func (s *Spec) Scheduled() bool { return s.BaselineCron != "" || s.BaselineInterval != 0 }

// ParseCron parses the cron baseline for one endpoint. It returns nil for an interval. The error is
// an [errs.Invalid] that names the bad fields.
func (s *Spec) ParseCron(id ID) (*schedule.Cron, error) {
	if s.BaselineCron == "" {
		return nil, nil //nolint:nilnil // No cron is no error: the interval is the baseline.
	}
	return schedule.Parse(s.cron(id))
}

func (s *Spec) cron(id ID) schedule.Spec {
	return schedule.Spec{
		Expression: s.BaselineCron,
		Zone:       s.Timezone,
		Gap:        s.DST.Gap,
		Overlap:    s.DST.Overlap,
		ID:         id,
	}
}
