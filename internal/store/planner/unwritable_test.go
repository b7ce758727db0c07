package planner_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
)

// A session is recorded with its hint whatever arguments an advisor sends, even valid JSON that
// jsonb refuses.
func TestUnstorableAdviceStillRecordsSession(t *testing.T) {
	t.Parallel()
	sent := []string{
		`{"interval_seconds":1e200000}`, `1e-200000`, `{"reason":"a\u0000b"}`, `{"a\u0000b":1}`, `["\ud800"]`, `{"\udc00":"\udfff\ud800"}`,
		"{\"reason\":\"\x00\xff\"}", strings.Repeat("[", 990) + strings.Repeat("]", 990), `interval = 30`, strings.Repeat(`"\u2028`, 2000),
	}
	p := setupPlanning(t)
	e := p.endpoint(t, nil)
	p.run(t, advisorFunc(func(ctx context.Context, _ planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
		for _, raw := range sent {
			d.RecordRefusal(planner.Call{Tool: "propose_interval", Arguments: json.RawMessage(raw), Result: "refused"})
		}
		_, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: 30 * time.Second, TTL: time.Hour, Reason: "faster"})
		return planner.Verdict{Reasoning: "because", NextAnalysisIn: time.Hour}, err
	}))

	s := p.sessionOf(t, e.ID)

	require.Equal(t, planner.Acted, s.Outcome, s.Error)
	require.Empty(t, s.Warnings)
	require.Len(t, s.Calls, len(sent)+2)
	require.JSONEq(t, `"{\"interval_seconds\":1e200000}"`, string(s.Calls[0].Arguments))
	require.Equal(t, 1, p.count(t, "hints"))
}

// poisonedQueue is a queue that puts a value into sessions that the database refuses, by a path
// that validation misses.
type poisonedQueue struct {
	planner.Queue

	calls, changes bool // where it gets to
}

func (q poisonedQueue) Complete(ctx context.Context, t planner.Claim, c planner.Completion) error {
	for i := range c.Session.Calls {
		if q.calls {
			c.Session.Calls[i].Arguments = json.RawMessage("1e200000")
		}
	}
	for i := range c.Session.Changes {
		if q.changes {
			c.Session.Changes[i] = "\x00"
		}
	}
	return q.Queue.Complete(ctx, t, c)
}

// A session with a refused value is recorded without its texts, so that its cost and the next
// analysis are stored.
func TestASessionThatIsRefusedForAValueIsWrittenWithLess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		poison  poisonedQueue
		outcome planner.Result
		hints   int
	}{
		"Calls":   {poisonedQueue{calls: true}, planner.Acted, 1},
		"Changes": {poisonedQueue{changes: true}, planner.Failed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setupPlanning(t)
			e := p.endpoint(t, nil)
			c.poison.Queue = p.one
			p.serve(t, c.poison, advisorFunc(func(ctx context.Context, _ planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
				for range 30 {
					d.Warn("one of many")
				}
				d.AddUsage(planner.Usage{Model: "m", PromptTokens: 700, CompletionTokens: 70})
				_, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: 30 * time.Second, TTL: time.Hour, Reason: "faster"})
				return planner.Verdict{Reasoning: "because", NextAnalysisIn: time.Hour}, err
			}))

			s := p.sessionOf(t, e.ID)

			require.Equal(t, c.outcome, s.Outcome)
			require.EqualValues(t, 770, s.Usage.PromptTokens+s.Usage.CompletionTokens)
			require.Empty(t, s.Calls)
			require.Contains(t, s.Warnings, "the database refused a value of this session, so its 2 calls are not on record")
			require.Equal(t, c.hints, p.count(t, "hints"))
			require.Equal(t, 1, p.count(t, "planner_state WHERE claimed_by IS NULL AND due_at > now() AND jsonb_array_length(memory -> 'analyses') = 1"))
		})
	}
}

// serve runs a planner with a queue and an advisor until the test ends.
func (p *planning) serve(t *testing.T, q planner.Queue, a planner.Advisor) {
	t.Helper()
	work := planner.New(planner.Config{
		Advisor: a, Queue: q, Evidence: p.evidence, Guardrails: planner.DefaultGuardrails(), Slots: 2, Poll: 10 * time.Millisecond,
		Timeout: 10 * time.Second, Grace: time.Second, Retention: time.Hour, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { work.Run(ctx) })
	t.Cleanup(func() { stop(); done.Wait() })
}
