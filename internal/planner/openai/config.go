package openai

import (
	"cmp"
	"errors"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/prometheus/client_golang/prometheus"
	openai "github.com/sashabaranov/go-openai"

	"rubato/internal/planner"
)

// Config says which model is asked, and how much at most.
type Config struct {
	BaseURL string // of the service, with its version; empty: OpenAI's own
	Key     string // empty: the service wants none
	Model   string // required

	Temperature     *float64 // nil: the model's own; models that reason take no other
	ReasoningEffort string   // empty: the model's own. Some models call tools only with "none"

	SessionTokens    int64         // of one session, questions and answers together; default 5000
	CompletionTokens int64         // of one answer at most; default 500
	Timeout          time.Duration // of one session; default 30 s
	Cooldown         time.Duration // for which a service, tenant or endpoint that failed three times in a row is left alone; default 30 s

	// What a million tokens cost, in US dollars. 0: not known, and sessions cost nothing.
	PromptPrice, CompletionPrice float64
}

// The defaults of a config.
const (
	DefaultSessionTokens    = 5000
	DefaultCompletionTokens = 500
	DefaultTimeout          = 30 * time.Second
	DefaultCooldown         = 30 * time.Second
)

func (c Config) withDefaults() Config {
	c.SessionTokens = cmp.Or(c.SessionTokens, DefaultSessionTokens)
	c.CompletionTokens = cmp.Or(c.CompletionTokens, DefaultCompletionTokens)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Cooldown = cmp.Or(c.Cooldown, DefaultCooldown)
	return c
}

// Advisor asks a model. It implements [planner.Advisor].
type Advisor struct {
	config   Config
	client   *openai.Client
	throttle *throttle
	service  circuitbreaker.CircuitBreaker[any]
	scoped   *breakerSet
	budget   planner.Budget
	metrics  *metrics
}

// New returns an advisor that spends from budget and counts in r.
func New(c Config, budget planner.Budget, r prometheus.Registerer) (*Advisor, error) {
	if c.Model == "" {
		return nil, errors.New("a model has no name; set RUBATO_PLANNER_MODEL")
	}
	c = c.withDefaults()
	g := &throttle{now: time.Now}
	wire := openai.DefaultConfig(c.Key)
	wire.BaseURL = cmp.Or(c.BaseURL, wire.BaseURL)
	wire.HTTPClient = newHTTPClient(g, c.Timeout)
	a := &Advisor{
		config: c, client: openai.NewClientWithConfig(wire), throttle: g, service: newServiceBreaker(c.Cooldown), scoped: newBreakerSet(c.Cooldown), budget: budget,
	}
	a.metrics = newMetrics(r, a.unavailableForAll, a.scoped)
	return a, nil
}

// Name is that of the model.
func (a *Advisor) Name() string { return a.config.Model }

// resting reports whether the service is left alone.
func (a *Advisor) unavailableForAll() bool {
	_, shut := a.throttle.active()
	return shut || a.service.RemainingDelay() > 0
}
