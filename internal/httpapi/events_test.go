package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/runs"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	"rubato/internal/waittest"
)

// message is one server-sent event.
type message struct {
	id, event string
	data      struct {
		Type, EndpointID string
		Run              *struct{ ID, Status, FinishedAt string }
		Change           *struct{ Action, Reason string }
		Hint             *struct{ Kind string }
	}
}

// listener is a client of the event stream.
type listener struct {
	t        *testing.T
	messages chan message
	last     string // the newest id
	stop     context.CancelFunc
	ended    chan struct{}
}

// watch connects and returns as soon as the stream has begun.
func (s *stack) watch(t *testing.T, query, last string) *listener {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := s.request(t, "GET", "/v1/events"+query, http.NoBody, withKey(readKey)).WithContext(ctx)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	response, err := s.client.Do(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	l := &listener{t: t, messages: make(chan message, 1000), stop: stop, ended: make(chan struct{})}
	began := make(chan string, 1)
	go l.read(response, began)
	t.Cleanup(l.close)
	l.last = waittest.Receive(t, began)
	return l
}

func (l *listener) read(response *http.Response, began chan string) {
	defer close(l.ended)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	var m message
	var data string // read when the message is whole
	for first := true; lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			if m.id = value; first {
				began <- value
				first = false
			}
		case "event":
			m.event = value
		case "data":
			data = value
		case "":
			if m.event != "" {
				if err := json.Unmarshal([]byte(data), &m.data); err != nil {
					l.t.Error(err)
				}
				l.messages <- m
			}
			m, data = message{}, ""
		}
	}
}

func (l *listener) close() {
	l.stop()
	<-l.ended
}

// next returns the next message and keeps its id, as a browser does.
func (l *listener) next() message {
	l.t.Helper()
	m := waittest.Receive(l.t, l.messages)
	if m.id != "" {
		l.last = m.id
	}
	require.Equal(l.t, m.event, m.data.Type)
	return m
}

// worker claims and starts the due run. finish records its end.
func (s *stack) worker(t *testing.T) (finish func(), run string) {
	t.Helper()
	me := [16]byte{7}
	list, _, err := items.NewClaims(s.db).ClaimDue(t.Context(), claims.Request{Worker: me, Limit: 10, Horizon: time.Second, LockTTL: time.Minute})
	require.NoError(t, err)
	require.Len(t, list, 1)
	c := list[0]
	executions := items.NewExecutions(endpointstore.NewStates(s.db, 0))
	id := runs.NewID(c.Slot, c.EndpointID, c.Attempt, c.InfraAttempt)
	started, err := executions.Start(t.Context(), dispatch.Starting{Worker: me, LockTTL: time.Minute, List: []dispatch.Start{{
		Claim: c, TenantID: keystore.DefaultTenant, RunID: id, Execution: time.Minute,
	}}})
	require.NoError(t, err)
	require.Len(t, started, 1)
	return func() {
		t.Helper()
		done, err := executions.Finish(t.Context(), dispatch.Finish{Worker: me, LockTTL: time.Minute, Runs: []runs.Run{{
			ID: id, EndpointID: c.EndpointID, TenantID: started[0].TenantID, ScheduledFor: c.Slot, Attempt: c.Attempt, Source: c.Source,
			ClaimToken: c.Token, WorkerID: me, StartedAt: started[0].StartedAt, FinishedAt: started[0].StartedAt.Add(time.Millisecond),
			Outcome: runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200},
		}}})
		require.NoError(t, err)
		require.Empty(t, done.Late)
	}, id.String()
}

const hourly = `{"name":"p","url":"https://api.example.com/","baselineIntervalMs":3600000}`

func (s *stack) register(t *testing.T, body string) string {
	t.Helper()
	id, ok := s.call(t, "POST", "/v1/endpoints", body).is(http.StatusCreated)["id"].(string)
	require.True(t, ok)
	return id
}

func TestEventStreamSendsEachKind(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	l := s.watch(t, "", "")
	id := s.register(t, hourly)
	m := l.next()
	require.Equal(t, "endpoint.changed", m.event)
	require.Equal(t, id, m.data.EndpointID)
	require.Equal(t, "registered", m.data.Change.Action)

	finish, run := s.worker(t)
	m = l.next()
	require.Equal(t, "run.started", m.event)
	require.Equal(t, run, m.data.Run.ID)
	require.Equal(t, "running", m.data.Run.Status)
	finish()
	m = l.next()
	require.Equal(t, "run.finished", m.event)
	require.Equal(t, run, m.data.Run.ID)
	require.Equal(t, "succeeded", m.data.Run.Status)

	path := "/v1/endpoints/" + id
	s.call(t, "POST", path+"/pause", `{"reason":"lunch"}`).is(http.StatusOK)
	m = l.next()
	require.Equal(t, "endpoint.paused lunch", m.event+" "+m.data.Change.Reason)
	s.call(t, "POST", path+"/resume", "").is(http.StatusOK)
	require.Equal(t, "endpoint.resumed", l.next().event)
	s.call(t, "PUT", path+"/hints/interval", `{"intervalMs":5000,"ttlMs":60000}`).is(http.StatusOK)
	m = l.next()
	require.Equal(t, "hint.set interval", m.event+" "+m.data.Hint.Kind)
	s.call(t, "DELETE", path+"/hints", "").is(http.StatusOK)
	require.Equal(t, "hint.cleared", l.next().event)
}

func TestEventsCanBeFiltered(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	one, two := s.register(t, hourly), s.register(t, hourly)
	byType := s.watch(t, "?types=endpoint.paused,run.finished", "")
	byEndpoint := s.watch(t, "?types=endpoint.paused,endpoint.resumed&endpointId="+two, "") // The registration may still be news.
	for _, id := range []string{one, two} {
		s.call(t, "POST", "/v1/endpoints/"+id+"/pause", "{}").is(http.StatusOK)
		s.call(t, "POST", "/v1/endpoints/"+id+"/resume", "").is(http.StatusOK)
	}
	require.Equal(t, one, byType.next().data.EndpointID)
	require.Equal(t, two, byType.next().data.EndpointID)
	require.Equal(t, "endpoint.paused", byEndpoint.next().event)
	require.Equal(t, "endpoint.resumed", byEndpoint.next().event)
	require.Empty(t, byType.messages)
	require.Empty(t, byEndpoint.messages)
}

// TestResumedEventStreamMissesNothing disconnects a client again and again during changes.
func TestResumedEventStreamMissesNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	const changes = 60
	id := s.register(t, hourly)
	l := s.watch(t, "?types=endpoint.paused", "")
	last := l.last
	l.close()
	done := make(chan error, 1)
	go func() {
		for n := range changes {
			r := s.request(t, "POST", "/v1/endpoints/"+id+"/pause", strings.NewReader(fmt.Sprintf(`{"reason":"r%d"}`, n)))
			response, err := s.client.Do(r)
			if err != nil {
				done <- err
				return
			}
			_ = response.Body.Close()
		}
		done <- nil
	}()
	var reasons []string
	for len(reasons) < changes {
		l := s.watch(t, "?types=endpoint.paused", last)
		for range min(7, changes-len(reasons)) {
			reasons = append(reasons, l.next().data.Change.Reason)
		}
		last = l.last
		l.close()
	}
	require.NoError(t, waittest.Receive(t, done))
	for n, reason := range reasons {
		require.Equal(t, fmt.Sprintf("r%d", n), reason)
	}
}

func TestRunsDuringADisconnectAreSentOnResume(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	l := s.watch(t, "", "")
	s.register(t, hourly)
	require.Equal(t, "endpoint.changed", l.next().event)
	l.close()
	finish, run := s.worker(t)
	finish()

	l = s.watch(t, "", l.last)

	m := l.next()
	require.Equal(t, "run.started "+run, m.event+" "+m.data.Run.ID)
	require.NotEmpty(t, m.id)
	m = l.next()
	require.Equal(t, "run.finished "+run, m.event+" "+m.data.Run.ID)
}

// TestStreamResumesAfterAStartEvent: a stream resumed after a start event does not repeat that
// start and sends all later events.
func TestStreamResumesAfterAStartEvent(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	l := s.watch(t, "?types=run.started,run.finished", "")
	s.register(t, hourly)
	finish, first := s.worker(t)
	m := l.next()
	require.Equal(t, "run.started "+first, m.event+" "+m.data.Run.ID)
	require.NotEmpty(t, m.id)
	l.close()

	l = s.watch(t, "?types=run.started,run.finished", m.id)
	s.register(t, hourly)
	finishSecond, second := s.worker(t)
	m = l.next()
	require.Equal(t, "run.started "+second, m.event+" "+m.data.Run.ID, "the first one is known")
	l.close()
	finish()
	finishSecond()

	l = s.watch(t, "?types=run.finished", m.id)
	for _, run := range []string{first, second} {
		m = l.next()
		require.Equal(t, "run.finished "+run, m.event+" "+m.data.Run.ID)
	}
}

func TestEventsRefuse(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	id := s.watch(t, "", "").last
	for name, tc := range map[string]struct {
		query, last, code string
		status            int
	}{
		"Type":     {"?types=run.started,nonsense", "", "malformed_fields", 400},
		"Endpoint": {"?endpointId=nonsense", "", "malformed_fields", 400},
		"Missing":  {"?endpointId=ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90", "", "not_found", 404},
		"ID":       {"", "nonsense", "invalid_event_id", 400},
		"OtherID":  {"", "f" + id[1:], "invalid_event_id", 400},
		"Old":      {"", id[:43] + "AAAAAAAAAAA"[:11], "event_id_too_old", 400},
	} {
		a := s.call(t, "GET", "/v1/events"+tc.query, "", withHeader("Last-Event-ID", tc.last))
		require.Equal(t, tc.status, a.status, name)
		require.Equal(t, tc.code, a.problem().Code, name)
	}
}

// TestStreamsOfATenantAreBounded: the limit of streams is per tenant and not per key.
func TestStreamsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var open []*listener
	for range 50 {
		open = append(open, s.watch(t, "", ""))
	}
	a := s.call(t, "GET", "/v1/events", "", withKey(writeKey))
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Equal(t, "too_many_streams", a.problem().Code)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	open[0].close()
	waittest.Until(t, func() bool {
		r := s.request(t, "GET", "/v1/events", http.NoBody, withKey(readKey))
		response, err := s.client.Do(r)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, "its place is free again")
}

func TestStreamsEndWhenTheServerDrains(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	l := s.watch(t, "", "")
	s.api.Drain()
	waittest.Receive(t, l.ended)
}

// A client that does not read is disconnected, and its slot is free for others.
func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	first := s.watch(t, "", "")
	first.close()
	s.register(t, hourly)
	// 30 MB are more than any socket buffer.
	_, err := s.pool(t).Exec(t.Context(), `INSERT INTO events (tenant_id, endpoint_id, at, kind, detail)
		SELECT tenant_id, id, now(), 'endpoint.paused', jsonb_build_object('version', 1, 'reason', repeat('r', 10000))
		FROM endpoints, generate_series(1, 3000)`)
	require.NoError(t, err)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nLast-Event-ID: %s\r\n\r\n", readKey, first.last)
	require.NoError(t, err)
	waittest.Until(t, func() bool { // Once the server has given up, a write is answered by a reset.
		_, err := conn.Write([]byte("x"))
		return err != nil
	})
}

// A stream may last for days, and ends when its key is revoked.
func TestEventsEndWithTheKey(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	l := s.watch(t, "", "")
	s.register(t, hourly)
	require.Equal(t, "endpoint.changed", l.next().event)
	s.endKeys()
	waittest.Receive(t, l.ended)
	require.NoError(t, l.t.Context().Err())
	require.Equal(t, http.StatusUnauthorized, s.call(t, "GET", "/v1/events", "", withKey(readKey)).status)
}
