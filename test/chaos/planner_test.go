package chaos

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/failpoint"
)

// startPlanner starts a planner that looks all the time and may change everything at once.
func (s *stack) startPlanner(failpoints string) *process {
	s.t.Helper()
	return start(s.t, filepath.Join(s.programs, "planner"), s.environ(map[string]string{
		"FAILPOINTS": failpoints, "RUBATO_PLANNER_POLL": "50ms", "RUBATO_PLANNER_TIMEOUT": "1s", "RUBATO_PLANNER_SPACING": "1s",
		"RUBATO_PLANNER_DWELL": "1s", "RUBATO_PLANNER_ANALYSES_PER_HOUR": "3600", "RUBATO_PLANNER_CHANGES_PER_HOUR": "3600",
	}))
}

// A planner that is killed between its decision and the commit leaves nothing behind. Another
// planner takes over its claim when the lock has expired, decides again, and writes all of it:
// session, hint and decision.
func TestPlannerKilledMidSession(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	s.startWorker(nil)
	spec := client.EndpointSpec{
		Name: "broken", URL: "http://" + freeAddress(t) + "/", BaselineIntervalMs: new(int64(4000)), MinIntervalMs: new(int64(1000)),
		Planner: new(client.PlannerAuthorityAct),
	}
	e, err := answer[client.Endpoint](s.api.CreateEndpoint(t.Context(), spec))
	require.NoError(t, err)
	eventually(t, "the endpoint to fail", func() bool { return s.count("SELECT failure_count FROM schedules") > 0 })

	victim := s.startPlanner(fmt.Sprintf("%s=kill", failpoint.Advised))
	require.True(t, victim.killed(t), "the fault did not fire")

	require.Equal(t, 1, s.count("SELECT count(*) FROM planner_state WHERE claimed_by IS NOT NULL"), "it died with the claim")
	require.Zero(t, s.count("SELECT (SELECT count(*) FROM planner_sessions) + (SELECT count(*) FROM hints) + (SELECT count(*) FROM planner_suggestions)"))
	died := time.Now()
	s.startPlanner("")
	eventually(t, "another planner to write a session", func() bool { return s.count("SELECT count(*) FROM planner_sessions") > 0 })
	s.requireWithin(30*time.Second, time.Since(died).Milliseconds(), died, "it waits for the end of the lock, no longer")
	eventually(t, "a hint", func() bool {
		return s.count("SELECT count(*) FROM hints WHERE author = 'planner:heuristic'") > 0
	})
	require.Equal(t,
		s.count("SELECT count(*) FROM planner_sessions WHERE outcome = 'acted' AND changes->>0 LIKE 'run every%'"),
		s.count("SELECT count(*) FROM hints WHERE author = 'planner:heuristic' AND kind = 'interval'"), "each hint has its session")
	got, err := answer[client.Endpoint](s.api.GetEndpoint(t.Context(), e.ID))
	require.NoError(t, err)
	require.Equal(t, e.ID, got.ID)
	s.auditByProgram()
}
