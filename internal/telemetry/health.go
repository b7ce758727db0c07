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
	// askTimeout bounds one round of checks. It is shorter than the second or more that probes usually wait.
	askTimeout = 900 * time.Millisecond
	// askPeriod is how often a program asks itself although nobody probes, so that it knows since when it has been how it is.
	askPeriod = time.Second
	// askLife is how long one round answers every probe: who asks in a loop asks the database a few times a second at most.
	askLife = 250 * time.Millisecond
)

// Check is one thing that must hold for a program to do its work.
type Check struct {
	Name string // one word, the same for ever
	// Ask returns nil while it holds. It returns when ctx ends.
	Ask func(ctx context.Context) error
	// Means is what everybody may read when it does not hold; empty: the error of Ask itself. The log has that error always.
	Means string
}

// CheckState is how a check went.
type CheckState struct {
	Name  string    `json:"name"`
	OK    bool      `json:"ok"`
	Since time.Time `json:"since"`           // when it came to be as it is, UTC
	Error string    `json:"error,omitempty"` // why it does not hold
}

// Report says whether a program can do its work, check by check.
type Report struct {
	Status string       `json:"status"` // ready, or not ready
	Checks []CheckState `json:"checks"`
}

// The words of a report.
const (
	Ready    = "ready"
	NotReady = "not ready"
)

// Ready reports whether every check holds.
func (r Report) Ready() bool { return r.Status == Ready }

// String names every check that does not hold, why, and since when.
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

// Health knows whether a program can do its work. It is safe for concurrent use.
type Health struct {
	logger *slog.Logger
	checks []Check

	mu     sync.Mutex // held through a round: probes at one time share the answer
	asked  time.Time  // end of the last round; zero: there was none
	states []CheckState
}

// NewHealth returns the health of a program. Without checks it is always ready.
func NewHealth(logger *slog.Logger, checks ...Check) *Health {
	return &Health{logger: logger.With("component", "telemetry"), checks: checks, states: make([]CheckState, len(checks))}
}

// Run asks every second until ctx ends.
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

// Report asks every check, unless somebody did a moment ago, and returns within a second.
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

// round asks all checks at once. A prober that goes away does not make a check fail.
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

// ask asks one check. One that panics does not hold.
func (h *Health) ask(ctx context.Context, c Check) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			h.logger.Error("a check of health panicked", "check", c.Name, "error", fault, "stack", string(debug.Stack()))
			err = errors.New("the check failed by a fault of its own")
		}
	}()
	return c.Ask(ctx)
}

// note takes in the answer of a check, and logs where it changes.
func (h *Health) note(state *CheckState, c Check, fault error) {
	first, ok := state.Since.IsZero(), fault == nil
	if changed := ok != state.OK; first || changed {
		state.Name, state.OK, state.Since = c.Name, ok, time.Now().UTC().Truncate(time.Millisecond)
		switch {
		case !ok && first: // It has only just begun.
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

// ServeHTTP answers with the report as JSON: 200 where the program is ready, else 503.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	report := h.Report(r.Context())
	status := http.StatusOK
	if !report.Ready() {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, report)
}
