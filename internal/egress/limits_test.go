package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
)

func TestStepsHaveLimitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	short := 150 * time.Millisecond
	tests := map[string]struct {
		limits Limits
		script egresstest.Script
		secure bool
		reason Reason
		text   string
	}{
		"Handshake": {
			Limits{TLS: short}, func(c *egresstest.Conn) { c.AwaitHangup() }, true, TLSError, "no TLS session could be agreed on",
		},
		"HeaderStops": {
			Limits{Header: short},
			egresstest.Hold("HTTP/1.1 200 OK\r\nX-A: b\r\n"), false, Timeout,
			"the header of the answer began and was not complete within its time",
		},
		"HeaderDrips": {
			Limits{Header: short},
			egresstest.Endless("HTTP/1.1 200 OK\r\nX-A: ", "b", time.Millisecond), false, Timeout,
			"the header of the answer began and was not complete within its time",
		},
		"BodyPauses": {
			Limits{Idle: short},
			egresstest.Hold("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), false, Timeout,
			"no byte of the answer's body came for longer than it may pause",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := egresstest.Start(t, test.script).URL()
			if test.secure {
				url = "https" + strings.TrimPrefix(url, "http")
			}
			client := setupClient(t, Config{Rules: Rules{Allow: loopback()}, Limits: test.limits}, nil)
			e, _ := fails(t, client, get(url))
			require.Equal(t, test.reason, e.Reason)
			require.Equal(t, "calling "+url+": "+string(test.reason)+": "+test.text, e.Error())
			require.Less(t, e.Phases.Total, 10*time.Second)
		})
	}
}

func TestSlowButSteadyBodiesAreRead(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		c.Next()
		c.Write("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n")
		for range 20 {
			<-time.After(20 * time.Millisecond)
			c.Write("x")
		}
	})
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}, Limits: Limits{Idle: 300 * time.Millisecond, Header: 300 * time.Millisecond}}, nil)
	response, err := client.Do(t.Context(), get(target.URL()))
	require.NoError(t, err)
	require.Len(t, response.Body, 20)
}

// TestInterimAnswersAreNoAnswer: a target that says at once that it is at work may be at work for
// longer than a header may take, and the time is its own.
func TestInterimAnswersAreNoAnswer(t *testing.T) {
	t.Parallel()
	const work = time.Second
	server, client := secured(t, Config{Limits: Limits{Header: work / 2}})
	for _, protocol := range []string{protocolH1, protocolH2} {
		server.NextProtos = []string{protocol}
		target := egresstest.StartHTTP(t, server, nil, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			<-time.After(work)
			w.WriteHeader(http.StatusNoContent)
		})
		response, err := client.Do(t.Context(), get(target.URL()))
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, response.StatusCode)
		require.GreaterOrEqual(t, response.Phases.Wait, work)
	}
}

func TestHeaderFieldsAreCounted(t *testing.T) {
	t.Parallel()
	answer := func(n int) string {
		return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + strings.Repeat("Set-Cookie: a=b\r\n", n-1) + "\r\n"
	}
	_, err := setup(t).Do(t.Context(), get(egresstest.Start(t, egresstest.Answer(answer(maxHeaderFields))).URL()))
	require.NoError(t, err)
	e, _ := fails(t, setup(t), get(egresstest.Start(t, egresstest.Answer(answer(maxHeaderFields+1))).URL()))
	require.Equal(t, ResponseTooLarge, e.Reason)
	require.Contains(t, e.Error(), "more than 512 header fields")
}

// TestCompressedBodiesAreBounded sends compressed input without output, and output with hardly any
// input.
func TestCompressedBodiesAreBounded(t *testing.T) {
	t.Parallel()
	var nothing bytes.Buffer
	empty := gzip.NewWriter(&nothing)
	require.NoError(t, empty.Close())
	head := "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
	for name, script := range map[string]egresstest.Script{
		"EmptyMembers": egresstest.Endless(head, strings.Repeat(nothing.String(), 1000), 0),
		"LongName":     egresstest.Endless(head+"\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff", strings.Repeat("n", 64<<10), 0),
		"Ratio":        egresstest.Once(encoded(zipped(t, make([]byte, 8<<20)))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := get(egresstest.Start(t, script).URL())
			request.MaxBody = 16 << 20
			e, response := fails(t, setup(t), request)
			require.Equal(t, ProtocolError, e.Reason, "%v", e.Err)
			require.LessOrEqual(t, len(response.Body), 2<<20)
			require.Less(t, e.Phases.Total, 10*time.Second)
		})
	}
}

// TestServersAreKnownByAnySpelling: another spelling of a host must not get places of its own.
func TestServersAreKnownByAnySpelling(t *testing.T) {
	t.Parallel()
	for want, spellings := range map[string][]string{
		"api.example.com:443": {
			"https://api.example.com", "https://API.example.com/", "https://api.example.com.", "https://api.Example.com:443", "https://api.example.com:00443",
			"http://api.example.com:443/x",
		},
		"api.example.com:80":    {"http://api.example.com", "HTTP://api.example.COM.:80"},
		"[2606:4700::1111]:443": {"https://[2606:4700::1111]", "https://[2606:4700:0:0:0:0:0:1111]:443", "https://[2606:4700::1111]:0443/"},
		"8.8.8.8:80":            {"http://8.8.8.8", "http://[::ffff:8.8.8.8]:80/", "http://[::ffff:808:808]"},
	} {
		for _, raw := range spellings {
			u, violation := NewPolicy(Rules{}).parse(raw)
			require.Nil(t, violation, raw)
			require.Equal(t, want, serverOf(u), raw)
		}
	}
}

// TestRedirectToAFullHostIsReportedAsSent: the call that was redirected has been sent.
func TestRedirectToAFullHostIsReportedAsSent(t *testing.T) {
	t.Parallel()
	hostSlots := newHostSlots(1)
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}, HostSlots: hostSlots.of}, nil)
	there := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	require.NoError(t, hostSlots.of([16]byte{}).Move(t.Context(), Server(there.URL())))
	request := get(egresstest.Start(t, egresstest.Answer(egresstest.Redirect("302 Found", there.URL()))).URL())
	request.MaxRedirects, request.Timeout = 1, time.Second
	e, _ := fails(t, client, request)
	require.Equal(t, Timeout, e.Reason)
	require.True(t, e.Sent)
	require.Contains(t, e.Error(), "the redirect was not followed: as many calls")
	require.NotContains(t, e.Error(), "nothing was sent")
	require.Empty(t, there.Requests())
}

func TestCallToAFullHostIsReportedAsUnsent(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		c.Next()
		close(arrived)
		c.AwaitHangup()
	})
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}, HostSlots: newHostSlots(1).of}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan struct{})
	go func() {
		_, _ = client.Do(ctx, get(target.URL()))
		close(first)
	}()
	<-arrived
	request := get(target.URL())
	request.Timeout = 50 * time.Millisecond
	e, _ := fails(t, client, request)
	require.Equal(t, Timeout, e.Reason)
	require.False(t, e.Sent)
	require.Contains(t, e.Error(), "nothing was sent")
	cancel()
	<-first
}

// TestNothingHostileReachesLogs puts escape sequences, line breaks and text that turns its
// direction wherever a target can.
func TestNothingHostileReachesLogs(t *testing.T) {
	t.Parallel()
	const bad = "\x1b[31m\u202eevil\u2066"
	for name, answer := range map[string]string{
		"StatusLine":  "HTTP/1.1 2" + bad + "\r\n\r\n",
		"HeaderName":  "HTTP/1.1 200 OK\r\n" + bad + ": x\r\n\r\n",
		"HeaderBreak": "HTTP/1.1 200 OK\r\nX: a\rb" + bad + "\x00\r\n\r\n",
		"Location":    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/" + bad + "\r\nContent-Length: 0\r\n\r\n",
		"ChunkSize":   chunked + bad + "\r\n",
		"Encoding":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + bad + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := get(egresstest.Start(t, egresstest.Once(answer)).URL())
			request.MaxRedirects = 3
			e, _ := fails(t, setup(t), request)
			var line bytes.Buffer
			slog.New(slog.NewJSONHandler(&line, nil)).Info("a run failed", "error", e)
			for _, r := range []string{"\x1b", "\u202e", "\u2066", "evil", "\r", "\x00"} {
				require.NotContains(t, e.Error(), r)
				require.NotContains(t, strings.TrimSuffix(line.String(), "\n"), r)
			}
			require.Equal(t, 1, strings.Count(line.String(), "\n"))
		})
	}
}

func TestConfiguredCredentialsDoNotFollowToOtherHosts(t *testing.T) {
	t.Parallel()
	second := egresstest.Start(t, egresstest.Answer(egresstest.OK("there")))
	first := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("308 Permanent Redirect", second.URL())))
	request := get(first.URL())
	request.MaxRedirects = 1
	request.Header = http.Header{"X-Partner": {"abc"}, "X-Plain": {"x"}}
	request.Credentials = []string{"x-partner"}
	_, err := setup(t).Do(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, "abc", first.Requests()[0].Header.Get("X-Partner"))
	require.Empty(t, second.Requests()[0].Header.Get("X-Partner"))
	require.Equal(t, "x", second.Requests()[0].Header.Get("X-Plain"))
}

func FuzzRedirect(f *testing.F) {
	for _, location := range []string{
		"/x", "//example.com/", "http://169.254.169.254/", "http:127.0.0.1", "https://a@b/", "\\\\evil", "http://[::1]:80:80/", "?q", "#f", "", "javascript:x",
		"http://2130706433/", "https://example.com:22/", "http://localhost", "ftp://example.com/",
	} {
		f.Add("https://example.com/a", location, 302, "POST")
	}
	client := New(Config{})
	f.Fuzz(func(t *testing.T, from, location string, status int, method string) {
		first, err := client.admit(client.usual.policy, Request{Method: method, URL: from, Header: http.Header{"Authorization": {"x"}}, Body: []byte("b")})
		if err != nil {
			return
		}
		x := &exchange{client: client, transport: client.usual, hop: first}
		next, err := x.follow(&http.Response{StatusCode: status, Header: http.Header{"Location": {location}}}, 1)
		if err != nil {
			return
		}
		require.Nil(t, client.usual.policy.CheckURL(next.url.String()))
		require.False(t, first.url.Scheme == "https" && next.url.Scheme != "https")
		if next.url.Hostname() != first.url.Hostname() && !strings.EqualFold(next.url.Hostname(), first.url.Hostname()) {
			require.Empty(t, next.header.Get("Authorization"))
		}
		require.True(t, sendable(next.method), fmt.Sprint(next.method))
	})
}
