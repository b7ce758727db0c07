package egress

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadHeadersAreRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, value, code string }{
		{"", "x", "header_invalid"},
		{"A B", "x", "header_invalid"},
		{"A:", "x", "header_invalid"},
		{"A\r\nB", "x", "header_invalid"},
		{"Ä", "x", "header_invalid"},
		{"A\x00", "x", "header_invalid"},
		{"A(b)", "x", "header_invalid"},
		{"A", "x\r\ny", "header_invalid"},
		{"A", "x\ny", "header_invalid"},
		{"A", "x\ry", "header_invalid"},
		{"A", "x\x00y", "header_invalid"},
		{"A", "x\x7fy", "header_invalid"},
		{"A", "x\x1b[31m", "header_invalid"},
		{"A", " x", "header_invalid"},
		{"A", "x\t", "header_invalid"},
		{"A", strings.Repeat("x", 1<<20), "too_long"},
		{strings.Repeat("A", 257), "x", "too_long"},
		{"host", "x", "header_forbidden"},
		{"content-length", "5", "header_forbidden"},
		{"TRANSFER-ENCODING", "chunked", "header_forbidden"},
		{"Trailer", "x", "header_forbidden"},
		{"TE", "trailers", "header_forbidden"},
		{"Upgrade", "h2c", "header_forbidden"},
		{"Expect", "100-continue", "header_forbidden"},
		{"Keep-Alive", "timeout=5", "header_forbidden"},
		{"Connection", "close", "header_forbidden"},
		{"Proxy-Authorization", "Basic x", "header_forbidden"},
		{"Proxy-Connection", "x", "header_forbidden"},
		{"Rubato-Fence", "9", "header_forbidden"},
		{"rubato-run-id", "9", "header_forbidden"},
		{"Idempotency-Key", "k", "header_forbidden"},
		{"traceparent", "00-1-1-00", "header_forbidden"},
		{"Webhook-Id", "msg_1", "header_forbidden"},
		{"webhook-timestamp", "1", "header_forbidden"},
		{"WEBHOOK-SIGNATURE", "v1,x", "header_forbidden"},
	}
	for _, test := range tests {
		violation := CheckHeader(test.name, test.value)
		require.NotNil(t, violation, "%q: %.20q", test.name, test.value)
		require.Equal(t, test.code, violation.Code, "%q: %.20q", test.name, test.value)
	}
}

func TestGoodHeadersPass(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"Authorization":     "Bearer abc.def-123",
		"X-Idempotency-Key": "theirs",
		"Content-Type":      "text/plain; charset=utf-8",
		"X!#$%&'*+-.^_`|~9": "any token is a name",
		"X-Empty":           "",
		"X-Text":            "tab\tinside, ünïcode and \"quotes\"",
		"X-Long":            strings.Repeat("x", 8192),
		"Rubatoish":         "x",
		"Webhook-Source":    "theirs",
	} {
		require.Nil(t, CheckHeader(name, value), name)
	}
}

func TestCredentialsAreRecognised(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Authorization", "Cookie", "cookie2", "X-Api-Key", "apikey", "X-Auth", "X-Access-Token", "X-CSRF-Token", "X-Secret",
		"X-Hub-Signature-256", "X-Session-Id", "X-Amz-Security-Token", "WWW-Authenticate",
	} {
		require.True(t, credential(name), name)
	}
	for _, name := range []string{"Accept", "Content-Type", "User-Agent", "X-Tenant", "Cache-Control"} {
		require.False(t, credential(name), name)
	}
}

func FuzzCheckHeader(f *testing.F) {
	client := New(Config{UserAgent: "agent"})
	f.Add("Accept", "text/html")
	f.Add("A B", "x\r\ny")
	f.Add("host", "x")
	f.Fuzz(func(t *testing.T, name, value string) {
		if violation := CheckHeader(name, value); violation != nil {
			require.NotEmpty(t, violation.Code)
			return
		}
		var wire strings.Builder
		require.NoError(t, client.wireHeader(http.Header{name: {value}}, nil).Write(&wire))
		want := "\r\n" + http.CanonicalHeaderKey(name) + ": " + value + "\r\n"
		require.Contains(t, "\r\n"+wire.String(), want)
		lines := 2
		if http.CanonicalHeaderKey(name) == "User-Agent" {
			lines = 1
		}
		require.Equal(t, lines, strings.Count(wire.String(), "\n"))
	})
}
