package chaos

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/failpoint"
	"rubato/internal/waittest"
)

// sagaTarget records the Idempotency-Keys of requests in the order of their arrival. It refuses the
// requests of step c.
type sagaTarget struct {
	*httptest.Server

	mu   sync.Mutex
	keys []string
}

func newSagaTarget(t *testing.T) *sagaTarget {
	t.Helper()
	target := &sagaTarget{}
	target.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target.mu.Lock()
		target.keys = append(target.keys, r.Header.Get("Idempotency-Key"))
		target.mu.Unlock()
		if r.URL.Path == "/c" {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	t.Cleanup(target.Close)
	return target
}

// got returns the steps of a run for which requests came.
func (target *sagaTarget) got(run string) (steps []string) {
	target.mu.Lock()
	defer target.mu.Unlock()
	for _, key := range target.keys {
		if step, is := strings.CutPrefix(key, run+"."); is {
			steps = append(steps, step)
		}
	}
	return steps
}

// saga stores a chain of four steps and starts a run, whose ID it returns. Its steps run endpoints,
// or send calls.
func (s *stack) saga(base string, inCalls bool) string {
	s.t.Helper()
	call := func(name string) *client.ChainRequest {
		return &client.ChainRequest{URL: new(base + "/" + name), Idempotent: new(true)}
	}
	register := func(name string) string {
		e, err := answer[client.Endpoint](s.api.CreateEndpoint(s.t.Context(), client.EndpointSpec{
			Name:               name,
			URL:                base + "/" + name,
			Method:             new(client.MethodPOST),
			BaselineIntervalMs: new(int64(3_600_000)),
			StartAt:            new(time.Now().Add(24 * time.Hour)),
			Idempotent:         new(true),
		}))
		require.NoError(s.t, err)
		return e.ID
	}
	var spec client.ChainSpec
	spec.OnFailure = new("compensate")
	for i, name := range []string{"a", "b", "c", "d"} {
		step := client.ChainStep{Name: name, Compensation: &client.ChainCompensation{}}
		if inCalls {
			step.Request, step.Compensation.Request = call(name), call(name+"-undo")
		} else {
			step.EndpointID, step.Compensation.EndpointID = new(register(name)), new(register(name+"-undo"))
		}
		if i > 0 {
			step.After = &[]string{spec.Steps[i-1].Name}
		}
		spec.Steps = append(spec.Steps, step)
	}
	_, err := answer[client.Chain](s.api.PutChain(s.t.Context(), "saga", spec))
	require.NoError(s.t, err)
	run, err := answer[client.ChainRun](s.api.RunChain(s.t.Context(), "saga", client.ChainStart{}))
	require.NoError(s.t, err)
	return run.ID
}

// TestKilledAtEachCommitOfAChain kills a worker before each commit that advances a run, and another
// one after it. The third step of the run fails. The target gets the steps and the compensations of
// the first two once by key, the last one first.
func TestKilledAtEachCommitOfAChain(t *testing.T) {
	t.Parallel()
	for name, inCalls := range map[string]bool{"Endpoints": false, "Calls": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedAtEachCommit(t, inCalls)
		})
	}
}

func killedAtEachCommit(t *testing.T, inCalls bool) {
	t.Helper()
	s, target := newStack(t, nil), newSagaTarget(t)
	run := s.saga(target.URL, inCalls)
	status := func() (status string) {
		require.NoError(t, s.pool.QueryRow(t.Context(), "SELECT status FROM chain_runs").Scan(&status))
		return status
	}
	commits := 0
	for ; status() == "running" || status() == "compensating"; commits++ {
		for _, at := range []failpoint.Point{failpoint.Advancing, failpoint.Advanced} {
			victim := s.startWorker(map[string]string{"FAILPOINTS": fmt.Sprintf("%s=kill", at)})
			require.True(t, victim.killed(t), "the fault did not fire")
			require.True(t, victim.failpointFired(), "%s", at)
		}
	}
	require.Equal(t, "compensated", status())
	require.Equal(t, 6, commits, "start, a, b, the failure of c, and two compensations")
	require.Equal(t, []string{"a", "b", "c", "b.compensation", "a.compensation"}, slices.Compact(target.got(run)))
	require.Equal(t, 1, s.count("SELECT count(*) FROM dead_letters"), "the failed step")
}

// TestKilledBetweenAChainAndItsSuspension kills the worker that has started a chain for the run of
// an endpoint, before the run is suspended. The repetition of the run finds the same run of the
// chain, because its key is that of the attempt, and ends with it.
func TestKilledBetweenAChainAndItsSuspension(t *testing.T) {
	t.Parallel()
	s, target := newStack(t, nil), newSagaTarget(t)
	spec := client.ChainSpec{Steps: []client.ChainStep{{Name: "a", Request: &client.ChainRequest{URL: new(target.URL + "/a")}}}}
	_, err := answer[client.Chain](s.api.PutChain(t.Context(), "one", spec))
	require.NoError(t, err)
	_, err = answer[client.Endpoint](s.api.CreateEndpoint(t.Context(), client.EndpointSpec{
		Name:               "starts",
		URL:                "chain:one",
		Method:             new(client.MethodPOST),
		BaselineIntervalMs: new(int64(3_600_000)),
	}))
	require.NoError(t, err)
	victim := s.startWorker(map[string]string{"FAILPOINTS": fmt.Sprintf("%s=kill", failpoint.Answered)})
	require.True(t, victim.killed(t), "the fault did not fire")
	require.Equal(t, 1, s.count("SELECT count(*) FROM chain_runs"), "the chain has started")
	require.Zero(t, s.count("SELECT count(*) FROM suspensions"), "its run is not suspended")
	s.startWorker(nil)
	waittest.Until(t, func() bool {
		return s.count("SELECT count(*) FROM runs r JOIN endpoints e ON e.id = r.endpoint_id WHERE r.status = 'succeeded'") == 1
	})
	require.Equal(t, 1, s.count("SELECT count(*) FROM runs r JOIN endpoints e ON e.id = r.endpoint_id WHERE r.status = 'lost'"))
	require.Equal(t, 1, s.count("SELECT count(*) FROM chain_runs WHERE status = 'succeeded'"))
	require.Equal(t, 1, s.count("SELECT count(*) FROM chain_runs"))
	target.mu.Lock()
	defer target.mu.Unlock()
	require.Len(t, target.keys, 1)
}
