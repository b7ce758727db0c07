package request

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/budget"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// TestOneTenantLeavesSeatsToOthers: however many answers of a tenant wait, another tenant has a
// seat at once, and tenants take turns.
func TestOneTenantLeavesSeatsToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := &judging{seats: 2, perTenant: 1, tenants: map[[16]byte]*tenantJudging{}}
		var mu sync.Mutex
		var order []byte
		letGo := make(chan struct{})
		ask := func(tenant byte) {
			release, err := j.acquire(t.Context(), [16]byte{tenant}, 1)
			require.NoError(t, err)
			mu.Lock()
			order = append(order, tenant)
			mu.Unlock()
			<-letGo
			release()
		}
		for _, tenant := range []byte{1, 1, 1, 1, 2, 3, 2, 3} {
			go ask(tenant)
			synctest.Wait()
		}
		require.Equal(t, []byte{1, 2}, order, "one seat each; the third tenant waits for one")
		for range 8 {
			letGo <- struct{}{}
			synctest.Wait()
		}
		require.Equal(t, 1, slices.Index(order[2:], 3)+1, "the tenant that waits for its first seat is next: %v", order)
		require.Len(t, order, 8)
		require.Empty(t, j.tenants, "tenants that have nothing are forgotten")
		require.Zero(t, j.busy+j.queued+len(j.turns))
	})
}

// TestFewLargeAnswersWait: beyond a number of bytes an answer is not judged, and a tenant cannot
// take all of them.
func TestFewLargeAnswersWait(t *testing.T) {
	t.Parallel()
	j := &judging{seats: 2, perTenant: 1, tenants: map[[16]byte]*tenantJudging{}}
	for _, tenant := range []byte{1, 2} {
		release, err := j.acquire(t.Context(), [16]byte{tenant}, 1<<20)
		require.NoError(t, err)
		defer release()
		w, err := j.enqueue([16]byte{tenant}, maxTenantBytes-1)
		require.NoError(t, err)
		require.NotNil(t, w)
		_, err = j.acquire(t.Context(), [16]byte{tenant}, 2)
		require.ErrorIs(t, err, errCrowded)
	}
	_, err := j.acquire(t.Context(), [16]byte{3}, 3)
	require.ErrorIs(t, err, errCrowded)
	require.NotContains(t, j.tenants, [16]byte{3})
	w, err := j.enqueue([16]byte{3}, 2)
	require.NoError(t, err, "two bytes still have room")
	require.NotNil(t, w, "they wait because both seats are taken")
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = j.acquire(ended, [16]byte{3}, 0)
	require.ErrorIs(t, err, budget.ErrEnded, "a wait ends with its run")
}

// hostileTarget has the rules of an attack: 16 rules and 32 redactions with a path that names each
// element of an array four times.
func hostileTarget(t *testing.T) *Target {
	t.Helper()
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval, spec.MaxResponseKB = "attack", "http://target.test/", time.Second, 1024
	const path = "$[::1,::1,::1,::1]"
	for range 16 {
		spec.SuccessRules = append(spec.SuccessRules, endpoints.AnswerRule{Type: "json", JSONPath: path, Op: "matches", Value: "^a+$"})
	}
	for range 32 {
		spec.Redact = append(spec.Redact, endpoints.RedactRule{JSONPath: path})
	}
	target, err := NewTarget([16]byte{1}, &spec)
	require.NoError(t, err)
	return &target
}

// hostileAnswer is an array of a megabyte with texts that satisfy the rules.
func hostileAnswer() egress.Response {
	return egress.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte("[" + strings.Repeat(`"aaaaaaa",`, 95_000) + `"a"]`),
	}
}

// judgeAnswer has an answer judged by a caller of its own.
func judgeAnswer(ctx context.Context, t *Target, answer egress.Response) (runs.Outcome, int) {
	c := New(Config{Logger: slog.New(slog.DiscardHandler)})
	return c.outcome(ctx, runSecrets{}, t, Exchange{Answer: answer})
}

// TestOneAnswerTakesABoundedPartOfAWorker by the memory that is taken for it. Once it was a
// gigabyte.
func TestOneAnswerTakesABoundedPartOfAWorker(t *testing.T) { //nolint:paralleltest // It counts the memory of the whole process.
	target, answer := hostileTarget(t), hostileAnswer()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o, broken := judgeAnswer(t.Context(), target, answer)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<20))
	require.Equal(t, "***", string(o.Body), "what names more places than there may be hides all")
	require.Equal(t, runs.SuccessRuleFailed, o.Reason)
	require.Zero(t, broken)
	require.Contains(t, o.Error, "successRules[0] does not hold")
}

// TestAnAnswerIsJudgedUntilItsRunEnds: past the limit of the execution, and past a cancel, it is a
// failure in words, and nothing of it is shown.
func TestAnAnswerIsJudgedUntilItsRunEnds(t *testing.T) {
	t.Parallel()
	target, answer := hostileTarget(t), hostileAnswer()
	for name, tc := range map[string]struct {
		cause  error
		status runs.Status
		reason runs.Reason
		says   string
	}{
		"Limit":    {nil, runs.Failed, runs.SuccessRuleFailed, "it cannot be judged: the run was over (maxExecutionTimeMs) before its answer was judged"},
		"Canceled": {&CanceledError{Author: "ada"}, runs.Canceled, runs.CanceledByUser, "canceled by ada"},
		"Shutdown": {ErrShutdown, runs.Lost, runs.Shutdown, "the worker is stopping"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if cancel(tc.cause); tc.cause == nil {
			limited, done := context.WithDeadline(t.Context(), time.Now())
			defer done()
			ctx = limited
		}
		o, _ := judgeAnswer(ctx, target, answer)
		require.Equal(t, tc.status, o.Status, name)
		require.Equal(t, tc.reason, o.Reason, name)
		require.Contains(t, o.Error, tc.says, name)
		require.Equal(t, "***", string(o.Body), name)
	}
}

// TestAnswerBeyondTheMemoryBudgetFailsTheRunWithAReason: the run fails, and the whole body is
// hidden because it cannot be searched for secrets.
func TestAnswerBeyondTheMemoryBudgetFailsTheRunWithAReason(t *testing.T) {
	t.Parallel()
	target := hostileTarget(t)
	c := Caller{judging: &judging{tenants: map[[16]byte]*tenantJudging{}, queued: maxQueuedBytes}}
	o, broken := c.outcome(t.Context(), runSecrets{}, target, Exchange{Answer: hostileAnswer()})
	require.Equal(t, runs.SuccessRuleFailed, o.Reason)
	require.Zero(t, broken)
	require.Contains(t, o.Error, "it cannot be judged: the worker holds more than 32 MiB of answers of this tenant")
	require.Equal(t, "***", string(o.Body))
}
