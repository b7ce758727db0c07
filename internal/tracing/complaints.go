package tracing

import (
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
)

// tellAgain is how long after a complaint was logged the next one is: while a collector is away, a busy worker loses several batches of
// spans a second.
const tellAgain = time.Minute

// complaints logs what the SDK has to say, some of it where there is much. It is safe for concurrent use.
type complaints struct {
	logger *slog.Logger

	mu     sync.Mutex
	told   time.Time // when the last one was logged
	untold int       // so many since
}

// listen makes the log of a program hear what the SDK has to say, which knows one listener for the whole process.
func listen(logger *slog.Logger) {
	otel.SetErrorHandler(&complaints{logger: logger.With("component", "tracing")})
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.told) < tellAgain {
		c.untold++
		return
	}
	c.logger.Warn("sending to the collector failed; these spans or points are lost, and nothing else", "error", err, "failures_before", c.untold)
	c.told, c.untold = time.Now(), 0
}
