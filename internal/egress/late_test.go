package egress

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"rubato/internal/egress/egresstest"
	"rubato/internal/waittest"
)

// TestSendDeadlineStopsALateRequest sends a request after its send deadline, on a fresh connection
// and on a pooled one.
func TestSendDeadlineStopsALateRequest(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	client := setup(t)
	for _, seen := range []int{0, 1} {
		for _, body := range [][]byte{nil, long()} {
			late := post(target.URL(), body)
			late.SendBy = time.Now().Add(-time.Millisecond)
			e, _ := fails(t, client, late)
			require.Equal(t, Late, e.Reason)
			require.False(t, e.Sent)
			require.Len(t, target.Requests(), seen)
		}

		early := get(target.URL())
		early.SendBy = time.Now().Add(time.Minute)
		_, err := client.Do(t.Context(), early)
		require.NoError(t, err)
	}
	require.Len(t, target.Requests(), 2)
}

// line is a client and a target that it can reach.
type line struct {
	client *Client
	target *egresstest.Target
}

// protocols returns a line of each protocol.
func protocols(t *testing.T) map[string]line {
	t.Helper()
	server, secure := secured(t, Config{})
	return map[string]line{
		"HTTP1": {setup(t), egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))},
		"HTTP2": {secure, egresstest.StartH2(t, server, egresstest.AnswerH2("ok"))},
	}
}

// TestRequestsDelayedByTheirConnectionAreConfirmed delays the connection until the start needs a
// confirmation, on a fresh connection and on a pooled one.
func TestRequestsDelayedByTheirConnectionAreConfirmed(t *testing.T) {
	t.Parallel()
	for name, dialed := range protocols(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, seen := range []int{0, 1} {
				asked := 0
				aged := func(until time.Duration, may bool) Request {
					r := get(dialed.target.URL())
					r.Confirm.Until = time.Now().Add(-time.Millisecond)
					r.Confirm.Ask = func(context.Context) (time.Time, bool) {
						asked++
						return time.Now().Add(until), may
					}
					return r
				}
				locked := aged(-time.Millisecond, true)
				locked.SendBy = time.Now().Add(time.Minute)
				for n, r := range []Request{aged(time.Minute, false), aged(-time.Millisecond, true), locked} {
					e, _ := fails(t, dialed.client, r)
					require.Equal(t, Late, e.Reason)
					require.False(t, e.Sent)
					require.Equal(t, n+1, asked)
					require.Len(t, dialed.target.Requests(), seen)
				}
				overdue := aged(time.Minute, true)
				overdue.SendBy = time.Now().Add(-time.Millisecond)
				e, _ := fails(t, dialed.client, overdue)
				require.Equal(t, Late, e.Reason, "what is confirmed is still bound by the lock")

				_, err := dialed.client.Do(t.Context(), aged(time.Minute, true))
				require.NoError(t, err)
				require.Equal(t, 5, asked)

				fresh := aged(0, false)
				fresh.Confirm.Until = time.Now().Add(time.Minute)
				if seen == 0 {
					continue
				}
				_, err = dialed.client.Do(t.Context(), fresh)
				require.NoError(t, err)
				require.Equal(t, 5, asked)
			}
			require.Len(t, dialed.target.Requests(), 3)
		})
	}
}

// TestACancelDuringConfirmationIsNotLate requires the reason of the cancel and not that of the send
// deadline.
func TestACancelDuringConfirmationIsNotLate(t *testing.T) {
	t.Parallel()
	for name, dialed := range protocols(t) {
		for reason, tc := range map[Reason]struct {
			timeout time.Duration
			giveUp  bool
		}{
			Canceled: {time.Minute, true},
			// A missing confirmation is no fault of the target.
			Late: {100 * time.Millisecond, false},
		} {
			t.Run(name+string(reason), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := get(dialed.target.URL())
				r.Timeout, r.MaxRedirects = tc.timeout, 1
				r.Confirm.Until = time.Now().Add(-time.Millisecond)
				r.Confirm.Ask = func(ctx context.Context) (time.Time, bool) {
					if tc.giveUp {
						cancel()
					}
					<-ctx.Done()
					return time.Time{}, false
				}
				_, err := dialed.client.Do(ctx, r)
				e, ok := errors.AsType[*Error](err)
				require.True(t, ok, err)
				require.Equal(t, reason, e.Reason)
				require.False(t, e.Sent)
				require.Empty(t, dialed.target.Requests())
			})
		}
	}
}

// TestARedirectIsNotConfirmed: the request has left by then.
func TestARedirectIsNotConfirmed(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	first := egresstest.Start(t, egresstest.Answer("HTTP/1.1 307 Temporary Redirect\r\nLocation: "+target.URL()+"\r\nContent-Length: 0\r\n\r\n"))
	asked := 0
	r := get(first.URL())
	r.MaxRedirects = 1
	r.Confirm.Until = time.Now().Add(-time.Millisecond)
	r.Confirm.Ask = func(context.Context) (time.Time, bool) {
		asked++
		return time.Now().Add(time.Minute), true
	}
	_, err := setup(t).Do(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, 1, asked)
}

// TestSendDeadlineCoversTheHTTP2Queue has a target that stops reading during a long request. The
// next request waits for the connection, and must not leave when the target reads on.
func TestSendDeadlineCoversTheHTTP2Queue(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	reads := make(chan struct{})
	readOn := sync.OnceFunc(func() { close(reads) })
	wide := http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}
	target := egresstest.StartH2(t, server, func(c *egresstest.H2Conn) {
		if egresstest.AnswerH2Times(c, "ok", 1) && c.WriteWindowUpdate(0, 1<<30) == nil {
			<-reads
		}
		egresstest.AnswerH2Times(c, "ok", -1)
	}, wide)
	t.Cleanup(readOn) // The target waits for its scripts.
	client.warm(t, target.URL(), 1)
	posted := make(chan error, 1)
	go func() {
		_, err := client.Do(t.Context(), post(target.URL()+"/long", long()[:16<<20]))
		posted <- err
	}()
	client.awaitStandstill(t, target)

	late := get(target.URL() + "/late")
	late.SendBy = time.Now().Add(50 * time.Millisecond)
	e, _ := fails(t, client, late)
	require.Equal(t, Late, e.Reason)
	require.False(t, e.Sent)
	readOn()
	require.NoError(t, <-posted)
	client.warm(t, target.URL(), 1)
	for _, r := range target.Requests() {
		require.NotEqual(t, "/late", r.URI)
	}
}

// awaitStandstill waits until a write to the session of a target does not get on for a while: on a
// busy machine a slow write also stands still between two looks.
func (c *Client) awaitStandstill(t *testing.T, target *egresstest.Target) {
	t.Helper()
	sessions, _ := c.usual.streams.look(strings.TrimPrefix(target.URL(), "https://"))
	require.Len(t, sessions, 1)
	at, seen, stills := sessions[0].conn, int64(-1), 0
	waittest.Until(t, func() bool {
		at.mu.Lock()
		defer at.mu.Unlock()
		if !at.writing || at.written != seen {
			stills = 0
		}
		stills++
		seen = at.written
		return stills > 20
	})
}

func TestSendDeadlineStopsALateRequestOverHTTP2(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	target := egresstest.StartH2(t, server, egresstest.AnswerH2("ok"), http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	_, err := client.Do(t.Context(), get(target.URL()))
	require.NoError(t, err)
	late := get(target.URL())
	late.SendBy = time.Now().Add(-time.Millisecond)
	e, _ := fails(t, client, late)
	require.Equal(t, Late, e.Reason)
	require.False(t, e.Sent)
	_, err = client.Do(t.Context(), get(target.URL()))
	require.NoError(t, err)
	require.Equal(t, 1, target.Conns(), "its place on the connection is free again")
}

// TestRedirectsUseTheExtendedSendDeadline redirects after the send deadline of the first request.
// If the second request is late, the error does not claim that nothing was sent.
func TestRedirectsUseTheExtendedSendDeadline(t *testing.T) {
	t.Parallel()
	for name, line := range protocols(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := get(egresstest.Start(t, egresstest.Answer(egresstest.Redirect("302 Found", line.target.URL()))).URL())
			r.MaxRedirects, r.SendBy = 1, time.Now().Add(time.Minute)
			r.Extended = func() time.Time { return time.Now().Add(-time.Millisecond) }
			e, _ := fails(t, line.client, r)
			require.Equal(t, Timeout, e.Reason)
			require.True(t, e.Sent)
			require.Contains(t, e.Error(), "the redirect came too late to be followed")
			require.Empty(t, line.target.Requests())

			r.Extended = func() time.Time { return time.Now().Add(time.Minute) }
			_, err := line.client.Do(t.Context(), r)
			require.NoError(t, err)
		})
	}
}
