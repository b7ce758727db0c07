package chaos

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// hourly registers an endpoint with default settings that runs every hour, the first time at once.
func (s *stack) hourly(method client.Method, path string) {
	s.t.Helper()
	e, err := answer[client.Endpoint](s.api.CreateEndpoint(s.t.Context(), client.EndpointSpec{
		Name: path, URL: s.target.URL + path, Method: &method, BaselineIntervalMs: new(time.Hour.Milliseconds()),
	}))
	require.NoError(s.t, err)
	s.ids = append(s.ids, e.ID)
}

// A run that dies with its worker is sent again within the length of its lock and 20 s, although
// its next due time is an hour away. It keeps its Idempotency-Key, and it is sent again only if its
// method is safe to repeat. A stopping worker hands its run over in the same way.
func TestLostRunsOfAnHour(t *testing.T) {
	t.Parallel()
	const get, post = "/hang/get", "/hang/post"
	s := newStack(t, nil)
	s.longest = time.Minute // The default limit of an execution.
	victim := s.startWorker(nil)
	s.hourly(client.MethodGET, get)
	s.hourly(client.MethodPOST, post)
	eventually(t, "both requests to be open", func() bool { return s.target.open() == 2 })
	heir := s.startWorker(nil)

	victim.signal(t, syscall.SIGKILL)
	require.True(t, victim.killed(t))
	killed := time.Now()
	eventually(t, "the lost GET to be sent again", func() bool { return len(s.target.keysOf(get)) == 2 })
	s.requireWithin(lockTTL+20*time.Second, time.Since(killed).Milliseconds(), killed, "the lost GET was sent again too late")

	s.startWorker(nil)
	heir.signal(t, syscall.SIGTERM)
	heir.gone(t)
	eventually(t, "the GET that a shutdown cut to be sent again", func() bool { return len(s.target.keysOf(get)) == 3 })
	eventually(t, "both losses of the GET and that of the POST to be on record", func() bool {
		return s.count("SELECT count(*) FROM runs WHERE status = 'lost'") == 3
	})
	s.target.release()
	eventually(t, "the GET to succeed", func() bool {
		return s.count("SELECT count(*) FROM runs WHERE status = 'succeeded' AND infra_attempt = 2 AND attempt = 1") == 1
	})

	keys := s.target.keysOf(get)
	require.NotEmpty(t, keys[0])
	require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys)
	require.Len(t, s.target.keysOf(post), 1, "a POST that may have arrived was sent again")
	require.Equal(t, 2, s.count("SELECT count(*) FROM schedules WHERE planned_at > clock_timestamp() + interval '50 minutes' AND infra_attempt = 0"))
	r := s.conclude(verdict{name: "lost runs of an hour", fault: "kill -9, then SIGTERM, while requests are open", fired: "a GET and a POST lost", ended: killed})
	require.Equal(t, 3, r.Counts.Statuses["lost"])
	require.Zero(t, r.Counts.Duplicates)
}
