package tempo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/tempo"
)

func TestParseBudget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]tempo.Budget{
		"600/h":  {Runs: 600, Per: time.Hour},
		"1/s":    {Runs: 1, Per: time.Second},
		"30/m":   {Runs: 30, Per: time.Minute},
		"8640/d": {Runs: 8640, Per: 24 * time.Hour},
	} {
		got, err := tempo.ParseBudget(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "600", "/h", "600/", "0/h", "-1/h", "+1/h", "01/h", "600/w", "600/hour", "6e2/h", " 600/h", "9999999999/h", "1.5/s"} {
		_, err := tempo.ParseBudget(text)
		require.ErrorContains(t, err, "600/h", text)
	}
}
