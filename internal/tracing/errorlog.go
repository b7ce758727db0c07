package tracing

import (
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
)

// logInterval is the minimum time between two log lines. While a collector is unreachable, a busy
// worker loses several batches of spans a second.
const logInterval = time.Minute

// errorLog is a log rate limiter for errors of the SDK. It is safe for concurrent use.
type errorLog struct {
	logger *slog.Logger

	// mu guards logged and suppressed.
	mu sync.Mutex
	// logged is the time of the last log line.
	logged time.Time
	// suppressed is the number of errors since then.
	suppressed int
}

// listen sends errors of the SDK to a logger. The SDK has one error handler per process.
func listen(logger *slog.Logger) {
	otel.SetErrorHandler(&errorLog{logger: logger.With("component", "tracing")})
}

// Handle implements otel.ErrorHandler.
func (c *errorLog) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.logged) < logInterval {
		c.suppressed++
		return
	}
	c.logger.Warn("export to the collector failed; its spans or metric points are lost", "error", err, "failures_before", c.suppressed)
	c.logged, c.suppressed = time.Now(), 0
}
