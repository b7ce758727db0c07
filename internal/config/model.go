package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The names that say which model is asked.
const (
	openaiKey    = "RUBATO_OPENAI_API_KEY"
	openaiURL    = "RUBATO_OPENAI_BASE_URL"
	plannerModel = "RUBATO_PLANNER_MODEL"
)

// Model is the language model that the planner asks, over a service that speaks OpenAI's chat completions.
type Model struct {
	Name            string   // empty: none is asked
	Key             string   // empty: the service wants none
	BaseURL         string   // empty: OpenAI's own
	Temperature     *float64 // nil: the model's own
	ReasoningEffort string   // empty: the model's own
	SessionTokens   int64    // that one analysis may use
	AnswerTokens    int64    // that one answer may use
	PromptPrice     float64  // US dollars for a million tokens of questions; 0: not known
	CompletionPrice float64  // and of answers
}

// modelSettings returns the settings of the planner's model.
func modelSettings() []Setting {
	text := func(name, doc string, secret bool, of func(*Model) *string) Setting {
		return Setting{
			Name: name, Doc: doc, Secret: secret,
			set:  func(c *Config, v string) error { return printable(of(&c.Model), v) },
			show: func(c Config) string { return *of(&c.Model) },
		}
	}
	count := func(name, def, doc string, of func(*Model) *int64) Setting {
		return Setting{
			Name: name, Default: def, Doc: doc,
			set:  func(c *Config, v string) error { return modelTokens(of(&c.Model), v) },
			show: func(c Config) string { return strconv.FormatInt(*of(&c.Model), 10) },
		}
	}
	price := func(name, doc string, of func(*Model) *float64) Setting {
		return Setting{
			Name: name, Default: "0", Doc: doc,
			set:  func(c *Config, v string) error { return dollars(of(&c.Model), v) },
			show: func(c Config) string { return strconv.FormatFloat(*of(&c.Model), 'g', -1, 64) },
		}
	}
	return []Setting{
		text(plannerModel, "the model that the planner asks, over a service with OpenAI's chat completions; rules decide unless set", false,
			func(m *Model) *string { return &m.Name }),
		text(openaiKey, "the key of that service; none is sent unless set", true, func(m *Model) *string { return &m.Key }),
		{
			Name: openaiURL, Doc: "the base URL of that service, such as http://127.0.0.1:11434/v1; OpenAI's own unless set", Secret: true, url: true,
			set:  func(c *Config, v string) error { return serverURL(&c.Model.BaseURL, v) },
			show: func(c Config) string { return c.Model.BaseURL },
		},
		{
			Name: "RUBATO_PLANNER_TEMPERATURE", Doc: "the temperature of the model, from 0 to 2; its own unless set, as models that reason want it",
			set:  func(c *Config, v string) error { return temperature(&c.Model.Temperature, v) },
			show: func(c Config) string { return shownTemperature(c.Model.Temperature) },
		},
		{
			Name: "RUBATO_PLANNER_REASONING_EFFORT", Doc: "how much the model thinks: none, minimal, low, medium or high; its own unless set",
			set:  func(c *Config, v string) error { return effort(&c.Model.ReasoningEffort, v) },
			show: func(c Config) string { return c.Model.ReasoningEffort },
		},
		count("RUBATO_PLANNER_SESSION_TOKENS", "5000", "how many tokens one analysis may use, questions and answers together", func(m *Model) *int64 { return &m.SessionTokens }),
		count("RUBATO_PLANNER_ANSWER_TOKENS", "500", "how many of them one answer may have; models that reason need more", func(m *Model) *int64 { return &m.AnswerTokens }),
		price("RUBATO_PLANNER_PROMPT_PRICE", "what a million tokens of questions cost, in US dollars; 0: not known", func(m *Model) *float64 { return &m.PromptPrice }),
		price("RUBATO_PLANNER_COMPLETION_PRICE", "what a million tokens of answers cost, in US dollars; 0: not known", func(m *Model) *float64 { return &m.CompletionPrice }),
	}
}

// modelless returns a sentence where a service is named and no model, or a model without a way to it.
func modelless(m Model, broken map[string]bool) []string {
	if broken[plannerModel] || broken[openaiKey] || broken[openaiURL] {
		return nil
	}
	switch reached := m.Key != "" || m.BaseURL != ""; {
	case m.Name == "" && reached:
		return []string{fmt.Sprintf("%s must name a model where %s or %s is set, else nobody asks it", plannerModel, openaiKey, openaiURL)}
	case m.Name != "" && !reached:
		return []string{fmt.Sprintf("%s needs %s, or %s where a service wants no key", plannerModel, openaiKey, openaiURL)}
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

// leastTokens is what one question and a short answer take.
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
