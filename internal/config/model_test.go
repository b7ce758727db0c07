package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/config"
)

func TestModelAndServiceMustBeSetTogether(t *testing.T) {
	t.Parallel()
	for _, whole := range [][]string{
		{},
		{"RUBATO_PLANNER_MODEL=m", "RUBATO_OPENAI_API_KEY=k"},
		{"RUBATO_PLANNER_MODEL=m", "RUBATO_OPENAI_BASE_URL=http://127.0.0.1:11434/v1"},
	} {
		_, err := config.Load(whole, config.Program{})
		require.NoError(t, err, whole)
	}
	for _, half := range []string{"RUBATO_PLANNER_MODEL=m", "RUBATO_OPENAI_API_KEY=k", "RUBATO_OPENAI_BASE_URL=http://127.0.0.1:11434/v1"} {
		_, err := config.Load([]string{half}, config.Program{})
		require.ErrorContains(t, err, "RUBATO_PLANNER_MODEL", half)
	}
}

func TestSettingsOfTheModelAreRead(t *testing.T) {
	t.Parallel()
	c, err := config.Load([]string{
		"RUBATO_PLANNER_MODEL=gpt", "RUBATO_OPENAI_API_KEY=sk-secret-of-mine", "RUBATO_OPENAI_BASE_URL=https://user:hunter2@models.example/v1/",
		"RUBATO_PLANNER_TEMPERATURE=0", "RUBATO_PLANNER_REASONING_EFFORT=none", "RUBATO_PLANNER_SESSION_TOKENS=8000",
		"RUBATO_PLANNER_ANSWER_TOKENS=700", "RUBATO_PLANNER_PROMPT_PRICE=0.25", "RUBATO_PLANNER_COMPLETION_PRICE=2",
	}, config.Program{})
	require.NoError(t, err)
	require.Equal(t, config.Model{
		Name: "gpt", Key: "sk-secret-of-mine", BaseURL: "https://user:hunter2@models.example/v1", Temperature: new(0.0), ReasoningEffort: "none",
		SessionTokens: 8000, AnswerTokens: 700, PromptPrice: 0.25, CompletionPrice: 2,
	}, c.Model)
	for _, row := range c.Redacted() {
		require.NotContains(t, row.Value, "sk-secret")
		require.NotContains(t, row.Value, "hunter2")
	}
}

func TestBadSettingsOfTheModelAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"RUBATO_PLANNER_TEMPERATURE=hot", "RUBATO_PLANNER_TEMPERATURE=3", "RUBATO_PLANNER_TEMPERATURE=NaN", "RUBATO_PLANNER_REASONING_EFFORT=much",
		"RUBATO_PLANNER_SESSION_TOKENS=10", "RUBATO_PLANNER_ANSWER_TOKENS=-1", "RUBATO_PLANNER_PROMPT_PRICE=NaN", "RUBATO_PLANNER_COMPLETION_PRICE=-1",
		"RUBATO_PLANNER_MODEL=two words", "RUBATO_OPENAI_BASE_URL=ftp://x", "RUBATO_OPENAI_API_KEY=a\tb",
	} {
		_, err := config.Load([]string{bad}, config.Program{})
		require.Error(t, err, bad)
		require.ErrorContains(t, err, bad[:20])
	}
}
