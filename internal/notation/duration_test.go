package notation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/notation"
)

func TestDurationsAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1m30s": 90 * time.Second, "1 h 30 min": 90 * time.Minute, "500ms": 500 * time.Millisecond, "2d": 48 * time.Hour,
		"1.5h": 90 * time.Minute, "0": 0, "1 day": 24 * time.Hour, "1D12H": 36 * time.Hour, "-5s": -5 * time.Second, "+5s": 5 * time.Second,
		"1.1s": 1100 * time.Millisecond, "250us": 250 * time.Microsecond, "250µs": 250 * time.Microsecond, "0.5d": 12 * time.Hour, "30 days": 720 * time.Hour,
	} {
		got, err := notation.ParseDuration(text, "")
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestTextsThatAreNoDurations(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "soon", "5 apples", "1..2s", "1e3d", "s", "d", "-", ".", "--5s", "5s-3s", "1w", "999999999999999999999d", "200000d", "106751d106751d", "1h."} {
		for _, bare := range []string{"", "s"} {
			_, err := notation.ParseDuration(text, bare)
			require.ErrorIs(t, err, notation.ErrSyntax, "%q", text)
		}
	}
}

// A number alone is seconds in a form, and a mistake on a command line, where the fields of the API
// beside it count milliseconds.
func TestALoneNumberHasTheUnitThatTheCallerNames(t *testing.T) {
	t.Parallel()
	got, err := notation.ParseDuration("90", "s")
	require.NoError(t, err)
	require.Equal(t, 90*time.Second, got)
	_, err = notation.ParseDuration("90", "")
	require.ErrorIs(t, err, notation.ErrSyntax)
	_, err = notation.ParseDuration("1m30", "s")
	require.ErrorIs(t, err, notation.ErrSyntax, "only a lone one")
}

// What Go writes, which is what older command lines and settings hold, reads back.
func TestGoDurationsAreParsed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Min(-1<<62).Draw(t, "d"))
		got, err := notation.ParseDuration(d.String(), "")
		require.NoError(t, err)
		require.Equal(t, d, got)
	})
}
