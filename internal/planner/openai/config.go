package openai

import (
	"cmp"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	openai "github.com/sashabaranov/go-openai"

	"rubato/internal/hosts"
	"rubato/internal/planner"
)

// Config selects the model and limits its use.
type Config struct {
	// BaseURL is the service's URL including its version; empty means OpenAI.
	BaseURL string
	// Key is the API key; empty if the service needs none.
	Key   string
	Model string // required

	// Temperature is nil for the model's default. Reasoning models accept no other value.
	Temperature *float64
	// ReasoningEffort is empty for the model's default. Some models call tools only with "none".
	ReasoningEffort string

	// SessionTokens limits one session, prompts and completions together; default 5000.
	SessionTokens int64
	// CompletionTokens limits one completion; default 500.
	CompletionTokens int64
	// Timeout limits one session; default 30 s.
	Timeout time.Duration
	// Cooldown is how long a circuit breaker stays open; default 30 s.
	Cooldown time.Duration

	// Prices per million tokens, in US dollars. 0 means unknown, and sessions then cost nothing.
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

// model is the key of the breaker of the service.
var model = hosts.Key{Host: "model"}

// Advisor asks a model. It implements [planner.Advisor].
type Advisor struct {
	config   Config
	client   *openai.Client
	throttle *throttle
	// service is the breaker of the service itself. scoped decides when it opens.
	service *hosts.Guard
	scoped  *breakerSet
	budget  planner.Budget
	metrics *metrics
}

// New returns an advisor that spends from budget and counts in r.
func New(c Config, budget planner.Budget, r prometheus.Registerer) (*Advisor, error) {
	if c.Model == "" {
		return nil, errors.New("the model has no name: set RUBATO_PLANNER_MODEL")
	}
	c = c.withDefaults()
	g := &throttle{now: time.Now}
	wire := openai.DefaultConfig(c.Key)
	wire.BaseURL = cmp.Or(c.BaseURL, wire.BaseURL)
	wire.HTTPClient = newHTTPClient(g, c.Timeout)
	a := &Advisor{
		config:   c,
		client:   openai.NewClientWithConfig(wire),
		throttle: g,
		service:  hosts.NewGuard(c.Cooldown),
		scoped:   newBreakerSet(c.Cooldown),
		budget:   budget,
	}
	a.metrics = newMetrics(r, a.unavailableForAll, a.scoped)
	return a, nil
}

// Name returns the name of the model.
func (a *Advisor) Name() string { return a.config.Model }

// unavailableForAll reports whether requests are stopped for every tenant.
func (a *Advisor) unavailableForAll() bool {
	_, shut := a.throttle.active()
	return shut || !a.service.OpenUntil(model).IsZero()
}
