package openai_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/planner"
	"rubato/internal/planner/openai"
	"rubato/internal/planner/openai/openaitest"
)

// theKey is the API key of the service. It may appear only in its header.
const theKey = "sk-canary-7Jq2mZ8tL4xV9bN3"

// bundle is an advisor with its service and a desk that records its calls.
type bundle struct {
	service  *openaitest.Server
	advisor  *openai.Advisor
	desk     *toolRecorder
	budget   *memoryBudget
	registry *prometheus.Registry
}

// setup returns a bundle with a service that answers by script. change edits the config.
func setup(t *testing.T, script openaitest.Script, change ...func(*openai.Config)) *bundle {
	t.Helper()
	b := &bundle{service: openaitest.New(t, script), desk: &toolRecorder{}, budget: &memoryBudget{left: 1 << 40}, registry: prometheus.NewRegistry()}
	config := openai.Config{BaseURL: b.service.URL(), Key: theKey, Model: "scripted-1", PromptPrice: 2, CompletionPrice: 8}
	for _, c := range change {
		c(&config)
	}
	advisor, err := openai.New(config, b.budget, b.registry)
	require.NoError(t, err)
	b.advisor = advisor
	return b
}

func (b *bundle) advise(t *testing.T) (planner.Verdict, error) {
	t.Helper()
	return b.advisor.Advise(t.Context(), aCase(), b.desk)
}

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// aCase is an endpoint that has just begun to fail.
func aCase() planner.Snapshot {
	return planner.Snapshot{
		Account: planner.Account{EndpointID: endpoints.ID{1}}, At: now, Trigger: planner.FailuresChanged, Name: "orders health",
		Policy: "Tighten while orders pile up, at most every 10 s.", Labels: map[string]string{"group": "shop", "role": "health"},
		Baseline: planner.Baseline{Interval: 5 * time.Minute}, Min: 10 * time.Second, Max: time.Hour, Tempo: 5 * time.Minute,
		NextRunAt: now.Add(time.Minute), FailureCount: 2,
		Health: func() []planner.Health {
			return []planner.Health{
				{Window: time.Hour, Runs: 12, Succeeded: 10, Failed: 2, P50: 40 * time.Millisecond, P95: 90 * time.Millisecond, P99: time.Second},
				{Window: 4 * time.Hour, Runs: 48, Succeeded: 46, Failed: 2, P50: 40 * time.Millisecond, P99: time.Second},
				{Window: 24 * time.Hour, Runs: 288, Succeeded: 286, Failed: 2, P50: 40 * time.Millisecond, P99: time.Second},
			}
		},
		Outcomes: []planner.Outcome{
			{StartedAt: now.Add(-time.Minute), Status: "failed", Reason: "http_status", StatusCode: 503, Latency: time.Second},
			{StartedAt: now.Add(-6 * time.Minute), Status: "failed", Reason: "http_status", StatusCode: 503, Latency: time.Second},
			{StartedAt: now.Add(-11 * time.Minute), Status: "succeeded", Reason: "", StatusCode: 200, Latency: 40 * time.Millisecond},
		},
		Siblings: []planner.Sibling{{ID: endpoints.ID{2}, Name: "orders load", Role: "load", Status: "succeeded", Tempo: time.Minute}},
	}
}

// answer is the last answer of the target of aCase.
func answer(body string) planner.Response {
	return planner.Response{
		At: now.Add(-time.Minute), Status: "failed", StatusCode: 503, Latency: time.Second, ContentType: "application/json",
		Features: []planner.Feature{{Path: "$.queue.depth", Value: 120.0}, {Path: "$.status", Value: "busy"}, {Path: "$.ok", Value: false}},
		Body:     body,
	}
}

// toolRecorder records the calls of an advisor. It accepts the proposals that the planner's rails
// accept.
type toolRecorder struct {
	mu        sync.Mutex
	body      string
	features  []planner.Feature // of the newest answer; nil: a few
	fail      error             // of every reading
	calls     int
	refused   []planner.Call
	spent     []planner.Usage
	warnings  []string
	intervals []planner.IntervalProposal
	nextRuns  []planner.NextRunProposal
	pauses    []planner.PauseProposal
	cleared   []string
}

func (d *toolRecorder) count() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls++; d.calls > planner.MaxCalls {
		return planner.ErrTooManyCalls
	}
	return d.fail
}

func (d *toolRecorder) LatestResponse(context.Context) (planner.Response, error) {
	if err := d.count(); err != nil {
		return planner.Response{}, err
	}
	if d.body == "" {
		return planner.Response{}, errs.New(errs.NotFound, "not_found", "there is no answer yet")
	}
	newest := answer(d.body)
	if d.features != nil {
		newest.Features = d.features
	}
	return newest, nil
}

func (d *toolRecorder) ResponseHistory(_ context.Context, limit int) ([]planner.Response, error) {
	var list []planner.Response
	for range limit {
		list = append(list, answer(d.body))
	}
	return list, d.count()
}

func (d *toolRecorder) SiblingResponses(context.Context) ([]planner.SiblingResponse, error) {
	return []planner.SiblingResponse{{Sibling: "orders load", Role: "load", Response: answer(d.body)}}, d.count()
}

func (d *toolRecorder) ProposeInterval(_ context.Context, p planner.IntervalProposal) (planner.ProposalResult, error) {
	if err := d.count(); err != nil {
		return planner.ProposalResult{}, err
	}
	if p.Interval < 10*time.Second {
		return planner.ProposalResult{}, errs.New(errs.Invalid, "below_min", "the clamps are 10 s to 1 h")
	}
	keep(d, &d.intervals, p)
	return planner.ProposalResult{Interval: p.Interval}, nil
}

func (d *toolRecorder) ProposeNextRun(_ context.Context, p planner.NextRunProposal) (planner.ProposalResult, error) {
	if err := d.count(); err != nil {
		return planner.ProposalResult{}, err
	}
	keep(d, &d.nextRuns, p)
	return planner.ProposalResult{Note: "it runs once"}, nil
}

func (d *toolRecorder) PauseUntil(_ context.Context, p planner.PauseProposal) (planner.ProposalResult, error) {
	if err := d.count(); err != nil {
		return planner.ProposalResult{}, err
	}
	keep(d, &d.pauses, p)
	return planner.ProposalResult{}, nil
}

func (d *toolRecorder) ClearHints(_ context.Context, reason string) (planner.ProposalResult, error) {
	if err := d.count(); err != nil {
		return planner.ProposalResult{}, err
	}
	keep(d, &d.cleared, reason)
	return planner.ProposalResult{}, nil
}

// keep appends to a list of a desk, which several sessions may share.
func keep[T any](d *toolRecorder, list *[]T, item T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*list = append(*list, item)
}

func (d *toolRecorder) RecordRefusal(c planner.Call) {
	keep(d, &d.refused, c)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
}

func (d *toolRecorder) AddUsage(u planner.Usage) { keep(d, &d.spent, u) }
func (d *toolRecorder) Warn(text string)         { keep(d, &d.warnings, text) }
func (d *toolRecorder) proposals() int {
	return len(d.intervals) + len(d.nextRuns) + len(d.pauses) + len(d.cleared)
}
func (d *toolRecorder) everything() string { return fmt.Sprintf("%+v %s", d, d.raw()) }

// raw returns the arguments of refused calls as text.
func (d *toolRecorder) raw() (all string) {
	for _, c := range d.refused {
		all += string(c.Arguments) + c.Result
	}
	return all
}

// tokens returns the tokens charged to the session.
func (d *toolRecorder) tokens() (sum int64) {
	for _, u := range d.spent {
		sum += u.PromptTokens + u.CompletionTokens
	}
	return sum
}

// memoryBudget is a budget in memory. Reservations without a settlement count as held.
type memoryBudget struct {
	mu         sync.Mutex
	left, held int64
	most       int64 // reserved at once
}

func (p *memoryBudget) Reserve(_ context.Context, a planner.Account, tokens int64) (planner.Reservation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tokens > p.left {
		return planner.Reservation{}, planner.ErrOverBudget
	}
	p.left -= tokens
	p.held += tokens
	p.most = max(p.most, tokens)
	return planner.Reservation{Account: a, Tokens: tokens}, nil
}

func (p *memoryBudget) Settle(ctx context.Context, r planner.Reservation, used int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held -= r.Tokens
	p.left += r.Tokens - used
	return ctx.Err()
}
