package egress

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
)

// hopping serves a redirect with status to /to on everything but /to, which answers 200.
func hopping(status string) egresstest.Script {
	return func(c *egresstest.Conn) {
		for {
			r, ok := c.Next()
			if !ok {
				return
			}
			answer := egresstest.Redirect(status, "/to")
			if r.URI == "/to" {
				answer = egresstest.OK("there")
			}
			if r.Method == http.MethodHead {
				answer = answer[:strings.Index(answer, "\r\n\r\n")+4]
			}
			c.Write(answer)
		}
	}
}

func TestRedirectsAreTheAnswerByDefault(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("302 Found", "http://169.254.169.254/")))
	response, err := setup(t).Do(t.Context(), get(target.URL()))
	require.NoError(t, err)
	require.Equal(t, 302, response.StatusCode)
	require.Equal(t, "http://169.254.169.254/", response.Header.Get("Location"))
	require.Zero(t, response.Redirects)
	require.Len(t, target.Requests(), 1)
}

func TestRedirectsChangeTheMethodByTheRules(t *testing.T) {
	t.Parallel()
	tests := []struct{ status, method, becomes string }{
		{"301 Moved Permanently", "GET", "GET"},
		{"301 Moved Permanently", "HEAD", "HEAD"},
		{"301 Moved Permanently", "POST", "GET"},
		{"301 Moved Permanently", "PUT", "PUT"},
		{"302 Found", "POST", "GET"},
		{"302 Found", "DELETE", "DELETE"},
		{"303 See Other", "POST", "GET"},
		{"303 See Other", "PUT", "GET"},
		{"303 See Other", "HEAD", "HEAD"},
		{"307 Temporary Redirect", "POST", "POST"},
		{"308 Permanent Redirect", "PATCH", "PATCH"},
	}
	for _, test := range tests {
		t.Run(test.status[:3]+test.method, func(t *testing.T) {
			t.Parallel()
			target := egresstest.Start(t, hopping(test.status))
			request := get(target.URL() + "/from")
			request.Method, request.MaxRedirects = test.method, 1
			request.Header = http.Header{"Content-Type": {"text/plain"}, "X-Api-Key": {"abc"}, "Webhook-Signature": {"v1,sum"}}
			request.Meta = http.Header{"Rubato-Run-Id": {"run_1"}}
			if test.method != "HEAD" {
				request.Body = []byte("payload")
			}
			response, err := setup(t).Do(t.Context(), request)
			require.NoError(t, err)
			require.Equal(t, 200, response.StatusCode)
			require.Equal(t, 1, response.Redirects)

			require.Len(t, target.Requests(), 2)
			last := target.Requests()[1]
			require.Equal(t, test.becomes, last.Method)
			require.Equal(t, "abc", last.Header.Get("X-Api-Key"), "the host is the same")
			require.Equal(t, "run_1", last.Header.Get("Rubato-Run-Id"))
			if test.becomes == test.method {
				require.Equal(t, request.Body, append([]byte(nil), last.Body...))
				require.Equal(t, "text/plain", last.Header.Get("Content-Type"))
				require.Equal(t, "v1,sum", last.Header.Get("Webhook-Signature"))
			} else {
				require.Empty(t, last.Body)
				require.Empty(t, last.Header.Get("Content-Type"))
				require.Empty(t, last.Header.Get("Webhook-Signature"), "it signs a body that is gone")
			}
		})
	}
}

// TestASignatureOfNoBodyStaysRight: what becomes of a POST without a body is signed as it was.
func TestASignatureOfNoBodyStaysRight(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, hopping("303 See Other"))
	request := get(target.URL() + "/from")
	request.Method, request.MaxRedirects, request.Header = http.MethodPost, 1, http.Header{"Webhook-Signature": {"v1,sum"}}
	_, err := setup(t).Do(t.Context(), request)
	require.NoError(t, err)
	last := target.Requests()[1]
	require.Equal(t, http.MethodGet, last.Method)
	require.Equal(t, "v1,sum", last.Header.Get("Webhook-Signature"))
}

func TestCredentialsDoNotFollowToOtherHosts(t *testing.T) {
	t.Parallel()
	back := new(string)
	third := egresstest.Start(t, egresstest.Answer(egresstest.OK("there")))
	second := egresstest.Start(t, func(c *egresstest.Conn) {
		for _, ok := c.Next(); ok; _, ok = c.Next() {
			c.Write(egresstest.Redirect("307 Temporary Redirect", *back))
		}
	})
	*back = third.URL()
	first := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("307 Temporary Redirect", second.URL())))
	request := get(first.URL())
	request.MaxRedirects = 5
	request.Header = http.Header{
		"Authorization": {"Bearer abc"}, "Cookie": {"a=b"}, "X-Api-Key": {"abc"}, "X-Hub-Signature": {"abc"}, "Accept": {"text/plain"},
	}
	_, err := setup(t).Do(t.Context(), request)
	require.NoError(t, err)
	require.Len(t, first.Requests()[0].Header, len(request.Header)+2, "and User-Agent and Accept-Encoding")
	for _, target := range []*egresstest.Target{second, third} {
		sent := target.Requests()[0].Header
		require.Equal(t, http.Header{"Accept": {"text/plain"}, "User-Agent": {"Rubato"}, "Accept-Encoding": {"gzip"}}, sent)
	}
}

func TestSameParty(t *testing.T) {
	t.Parallel()
	policy := NewPolicy(Rules{})
	tests := map[[2]string]bool{
		{"https://a.test/x", "https://a.test/y"}:         true,
		{"https://a.test/x", "https://A.test:443/y"}:     true,
		{"http://a.test/x", "https://a.test/y"}:          true,
		{"http://a.test:80/x", "https://a.test:443/y"}:   true,
		{"http://a.test:8080/x", "https://a.test/y"}:     false,
		{"http://a.test/x", "https://a.test:8443/y"}:     false,
		{"https://a.test/x", "https://a.test:8443/y"}:    false,
		{"https://a.test/x", "https://b.test/y"}:         false,
		{"https://a.test/x", "https://sub.a.test/y"}:     false,
		{"https://a.test/x", "https://a.test.evil.test"}: false,
	}
	for pair, want := range tests {
		from, violation := policy.parse(pair[0])
		require.Nil(t, violation)
		to, violation := policy.parse(pair[1])
		require.Nil(t, violation)
		require.Equal(t, want, sameParty(from, to), pair)
	}
}

func TestRedirectsThatAreNotFollowed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		location string
		reason   Reason
	}{
		"Metadata":      {"http://169.254.169.254/latest", RedirectDenied},
		"Private":       {"http://10.0.0.1/", RedirectDenied},
		"NumericHost":   {"http://2130706433/", RedirectDenied},
		"LocalName":     {"http://printer.local/", RedirectDenied},
		"Scheme":        {"file:///etc/passwd", RedirectDenied},
		"Script":        {"javascript:alert(1)", RedirectDenied},
		"Userinfo":      {"http://u:p@127.0.0.1/", RedirectDenied},
		"Port":          {"http://example.com:22/", RedirectDenied},
		"Malformed":     {"http://[::1", RedirectDenied},
		"TooLong":       {"/" + strings.Repeat("x", 3000), RedirectDenied},
		"RefusedByDial": {"http://inside.test/", EgressDenied},
		"Loop":          {"/again", RedirectLimit},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("302 Found", test.location)))
			resolver := named(t, map[string][]string{"inside.test": {"10.0.0.1"}})
			request := get(target.URL() + "/start?token=canary")
			request.MaxRedirects = 10
			e, response := fails(t, setupClient(t, Config{Rules: Rules{Allow: loopback()}}, resolver), request)
			require.Equal(t, test.reason, e.Reason)
			require.True(t, e.Sent)
			require.NotContains(t, e.Error(), "canary")
			if test.reason == RedirectLimit {
				require.Len(t, target.Requests(), 11)
				require.Equal(t, 10, response.Redirects)
			} else {
				require.Len(t, target.Requests(), 1)
			}
			if test.reason != EgressDenied {
				require.Equal(t, 302, response.StatusCode)
				require.Equal(t, test.location, response.Header.Get("Location"))
			}
		})
	}
}

func TestAnswersThatOnlyLookLikeRedirects(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
		egresstest.Redirect("300 Multiple Choices", "/to"),
		egresstest.Redirect("304 Not Modified", "/to"),
		egresstest.Redirect("305 Use Proxy", "/to"),
		egresstest.Redirect("201 Created", "/to"),
	} {
		target := egresstest.Start(t, egresstest.Answer(answer))
		request := get(target.URL())
		request.MaxRedirects = 3
		response, err := setup(t).Do(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, answer[9:12], fmt.Sprint(response.StatusCode))
		require.Len(t, target.Requests(), 1)
	}
}

func TestLongBodyOfARedirectIsNotRead(t *testing.T) {
	t.Parallel()
	to := egresstest.Start(t, egresstest.Answer(egresstest.OK("there")))
	head := "HTTP/1.1 302 Found\r\nLocation: " + to.URL() + "\r\n\r\n"
	for name, script := range map[string]egresstest.Script{
		"Endless": egresstest.Endless(head, strings.Repeat("x", 4096), 0),
		"Stalled": egresstest.Hold(head),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := get(egresstest.Start(t, script).URL())
			request.MaxRedirects = 1
			response, err := setup(t).Do(t.Context(), request)
			require.NoError(t, err)
			require.Equal(t, "there", string(response.Body))
		})
	}
}
