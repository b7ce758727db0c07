package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBacktestRowsShowTheScore checks that the record has no score, and that bounds are joined.
func TestBacktestRowsShowTheScore(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"recorded", "8", "2", "0s to 1m", "0s to 1m", "-", "-"}, backtestRow(backtested{
		Policy:      "recorded",
		Polls:       bounded{8, 8},
		Changes:     2,
		MeanDelayMs: bounded{0, 60000},
		P95DelayMs:  bounded{0, 60000},
	}))
	require.Equal(t, []string{"act", "3 to 4", "2", "0s", "0s", "50 % to 61 %", "-15s to 40s"}, backtestRow(backtested{
		Policy:     "act",
		Polls:      bounded{3, 4},
		Changes:    2,
		PollsSaved: &bounded{0.5, 0.61},
		SoonerMs:   &bounded{-15000, 40000},
	}))
}
