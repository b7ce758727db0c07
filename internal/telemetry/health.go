package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

const (
	// askTimeout bounds one round of checks. It is shorter than the usual timeout of probes, which
	// is a second or more.
	askTimeout = 900 * time.Millisecond
	// askPeriod is the interval of checks without a probe. They are needed so that the report knows
	// since when a check has failed.
	askPeriod = time.Second
	// askLife is how long the result of one round is cached, so that frequent probes cause only a
	// few queries a second.
	askLife = 250 * time.Millisecond
)

// Check is a condition that must hold for a program to do its work.
type Check struct {
	Name string // one word that never changes
	// Ask returns nil while the condition holds. It returns when ctx ends.
	Ask func(ctx context.Context) error
	// Means is the public error if the condition does not hold. If it is empty, the error of Ask is
	// public. The log always has the error of Ask.
	Means string
}

// CheckState is the result of a check.
type CheckState struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Since is when the result last changed, in UTC.
	Since time.Time `json:"since"`
	// Error is why the check fails.
	Error string `json:"error,omitempty"`
}

// Report states whether a program can do its work, with the result of each check.
type Report struct {
	// Status is Ready or NotReady.
	Status string       `json:"status"`
	Checks []CheckState `json:"checks"`
}

// Values of Report.Status.
const (
	Ready    = "ready"
	NotReady = "not ready"
)

// Ready reports whether every check holds.
func (r Report) Ready() bool { return r.Status == Ready }

// String names every failed check, its error, and since when it fails.
func (r Report) String() string {
	var failed []string
	for _, c := range r.Checks {
		if !c.OK {
			failed = append(failed, fmt.Sprintf("%s: %s, since %s", c.Name, c.Error, c.Since.Format(time.RFC3339)))
		}
	}
	if len(failed) == 0 {
		return r.Status
	}
	return r.Status + ": " + strings.Join(failed, "; ")
}

// Health evaluates whether a program can do its work. It is safe for concurrent use.
type Health struct {
	logger *slog.Logger
	checks []Check

	// mu guards the fields below. It is held during a round, so that concurrent probes share it.
	mu sync.Mutex
	// asked is the end of the last round; zero if there was none.
	asked  time.Time
	states []CheckState
}

// NewHealth returns the health of a program with the given checks. Without checks it is always
// ready.
func NewHealth(logger *slog.Logger, checks ...Check) *Health {
	return &Health{
		logger: logger.With("component", "telemetry"),
		checks: checks,
		states: make([]CheckState, len(checks)),
	}
}

// Run evaluates the checks every second until ctx ends.
func (h *Health) Run(ctx context.Context) {
	ticker := time.NewTicker(askPeriod)
	defer ticker.Stop()
	for {
		h.Report(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Report returns the results of the last round, or of a new one if that is older than askLife. It
// returns within a second.
func (h *Health) Report(ctx context.Context) Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked.IsZero() || time.Since(h.asked) >= askLife {
		h.round(ctx)
	}
	report := Report{Status: Ready, Checks: append([]CheckState{}, h.states...)}
	for _, state := range h.states {
		if !state.OK {
			report.Status = NotReady
		}
	}
	return report
}

// round runs all checks concurrently. It is independent of the prober's context, so that an aborted
// probe does not make a check fail.
func (h *Health) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	faults := make([]error, len(h.checks))
	var asking sync.WaitGroup
	for i, c := range h.checks {
		asking.Go(func() { faults[i] = h.ask(ctx, c) })
	}
	asking.Wait()
	for i, c := range h.checks {
		h.note(&h.states[i], c, faults[i])
	}
	h.asked = time.Now()
}

// ask runs one check. A panic counts as a failure.
func (h *Health) ask(ctx context.Context, c Check) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			h.logger.Error("health check panicked", "check", c.Name, "error", fault, "stack", string(debug.Stack()))
			err = errors.New("the check panicked; see the log")
		}
	}()
	return c.Ask(ctx)
}

// note stores the result of a check and logs a change.
func (h *Health) note(state *CheckState, c Check, fault error) {
	first, ok := state.Since.IsZero(), fault == nil
	if changed := ok != state.OK; first || changed {
		state.Name, state.OK, state.Since = c.Name, ok, time.Now().UTC().Truncate(time.Millisecond)
		switch {
		case !ok && first:
			h.logger.Debug("not ready yet", "check", c.Name, "error", fault)
		case !ok:
			h.logger.Warn("not ready", "check", c.Name, "error", fault)
		case !first:
			h.logger.Info("ready again", "check", c.Name)
		}
	}
	switch {
	case ok:
		state.Error = ""
	case c.Means != "":
		state.Error = c.Means
	default:
		state.Error = fault.Error()
	}
}

// ServeHTTP answers with the report as JSON: status 200 if the program is ready, otherwise 503.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	report := h.Report(r.Context())
	status := http.StatusOK
	if !report.Ready() {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, report)
}
