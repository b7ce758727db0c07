package tracing

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestErrorsOfAnUnreachableCollectorAreRateLimited loses two batches of spans a second for two and
// a half minutes.
func TestErrorsOfAnUnreachableCollectorAreRateLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := &errorLog{logger: slog.New(slog.NewTextHandler(&out, nil))}
		for range 300 {
			c.Handle(errors.New("connection refused"))
			time.Sleep(500 * time.Millisecond)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 3, "at once, and once a minute")
		require.Contains(t, lines[0], `error="connection refused" failures_before=0`)
		require.Contains(t, lines[2], "failures_before=119")
	})
}
