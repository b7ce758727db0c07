package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Names of the model settings that code refers to.
const (
	openaiKey    = "RUBATO_OPENAI_API_KEY"
	openaiURL    = "RUBATO_OPENAI_BASE_URL"
	plannerModel = "RUBATO_PLANNER_MODEL"
)

// Model holds the planner's language model, at a service with OpenAI's chat completions API.
type Model struct {
	// Name is empty if no model is used.
	Name string
	// Key is empty if the service needs none.
	Key string
	// BaseURL is empty for OpenAI's own service.
	BaseURL string
	// Temperature is nil for the model's default.
	Temperature *float64
	// ReasoningEffort is empty for the model's default.
	ReasoningEffort string
	// SessionTokens is the token budget of one analysis.
	SessionTokens int64
	// AnswerTokens is the token limit of one completion.
	AnswerTokens int64
	// PromptPrice is in US dollars per million prompt tokens; 0 for unknown.
	PromptPrice float64
	// CompletionPrice is in US dollars per million completion tokens; 0 for unknown.
	CompletionPrice float64
}

// modelSettings returns the settings of the planner's model.
func modelSettings() []Setting {
	text := func(name, doc string, secret bool, of func(*Model) *string) Setting {
		return Setting{
			Name:   name,
			Doc:    doc,
			Secret: secret,
			set:    func(c *Config, v string) error { return printable(of(&c.Model), v) },
			show:   func(c Config) string { return *of(&c.Model) },
		}
	}
	count := func(name, def, doc string, of func(*Model) *int64) Setting {
		return Setting{
			Name:    name,
			Default: def,
			Doc:     doc,
			set:     func(c *Config, v string) error { return modelTokens(of(&c.Model), v) },
			show:    func(c Config) string { return strconv.FormatInt(*of(&c.Model), 10) },
		}
	}
	price := func(name, doc string, of func(*Model) *float64) Setting {
		return Setting{
			Name:    name,
			Default: "0",
			Doc:     doc,
			set:     func(c *Config, v string) error { return dollars(of(&c.Model), v) },
			show:    func(c Config) string { return strconv.FormatFloat(*of(&c.Model), 'g', -1, 64) },
		}
	}
	return []Setting{
		text(plannerModel, "language model of the planner, at a service with OpenAI's chat completions API; default: built-in rules without a model", false,
			func(m *Model) *string { return &m.Name }),
		text(openaiKey, "API key of the model service; default: none is sent", true, func(m *Model) *string { return &m.Key }),
		{
			Name:   openaiURL,
			Doc:    "base URL of the model service, such as http://127.0.0.1:11434/v1; default: OpenAI",
			Secret: true,
			url:    true,
			set:    func(c *Config, v string) error { return serverURL(&c.Model.BaseURL, v) },
			show:   func(c Config) string { return c.Model.BaseURL },
		},
		{
			Name: "RUBATO_PLANNER_TEMPERATURE",
			Doc:  "temperature of the model, from 0 to 2; default: the model's own, which reasoning models require",
			set:  func(c *Config, v string) error { return temperature(&c.Model.Temperature, v) },
			show: func(c Config) string { return shownTemperature(c.Model.Temperature) },
		},
		{
			Name: "RUBATO_PLANNER_REASONING_EFFORT",
			Doc:  "reasoning effort of the model: none, minimal, low, medium or high; default: the model's own",
			set:  func(c *Config, v string) error { return effort(&c.Model.ReasoningEffort, v) },
			show: func(c Config) string { return c.Model.ReasoningEffort },
		},
		count("RUBATO_PLANNER_SESSION_TOKENS", "5000", "maximum number of tokens per analysis, prompts and completions together", func(m *Model) *int64 { return &m.SessionTokens }),
		count("RUBATO_PLANNER_ANSWER_TOKENS", "500", "maximum number of tokens per completion; reasoning models need more", func(m *Model) *int64 { return &m.AnswerTokens }),
		price("RUBATO_PLANNER_PROMPT_PRICE", "price of a million prompt tokens, in US dollars; 0: unknown", func(m *Model) *float64 { return &m.PromptPrice }),
		price("RUBATO_PLANNER_COMPLETION_PRICE", "price of a million completion tokens, in US dollars; 0: unknown", func(m *Model) *float64 { return &m.CompletionPrice }),
	}
}

// modelProblems returns an error if a service is set without a model, or a model without a service.
func modelProblems(m Model, broken map[string]bool) []string {
	if broken[plannerModel] || broken[openaiKey] || broken[openaiURL] {
		return nil
	}
	switch reached := m.Key != "" || m.BaseURL != ""; {
	case m.Name == "" && reached:
		return []string{fmt.Sprintf("%s must name a model because %s or %s is set", plannerModel, openaiKey, openaiURL)}
	case m.Name != "" && !reached:
		return []string{fmt.Sprintf("%s needs %s, or %s for a service without a key", plannerModel, openaiKey, openaiURL)}
	default:
		return nil
	}
}

func printable(target *string, value string) error {
	if len(value) > 512 || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("must be one word of at most 512 printable characters")
	}
	*target = value
	return nil
}

// leastTokens is enough for one prompt and a short completion.
const leastTokens = 300

func modelTokens(target *int64, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < leastTokens || n > 1_000_000 {
		return fmt.Errorf("must be a whole number from %d to 1000000", leastTokens)
	}
	*target = n
	return nil
}

func dollars(target *float64, value string) error {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > 1e6 {
		return errors.New("must be a number of dollars from 0 to 1000000")
	}
	*target = n
	return nil
}

func temperature(target **float64, value string) error {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n >= 0 && n <= 2) {
		return errors.New("must be a number from 0 to 2")
	}
	*target = &n
	return nil
}

func shownTemperature(t *float64) string {
	if t == nil {
		return ""
	}
	return strconv.FormatFloat(*t, 'g', -1, 64)
}

func effort(target *string, value string) error {
	if !slices.Contains([]string{"none", "minimal", "low", "medium", "high"}, value) {
		return errors.New("must be none, minimal, low, medium or high")
	}
	*target = value
	return nil
}
