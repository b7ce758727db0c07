package httpapi_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/httpapi"
)

func TestTenantIsThrottledAboveItsRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServiceWith(t, httpapi.Config{Rate: 2})
		const path = "/v1/endpoints"
		first := s.call("GET", path, "")
		require.Equal(t, `"tenant";q=20;w=10`, first.header.Get("RateLimit-Policy"))
		require.Equal(t, `"tenant";r=19;t=1`, first.header.Get("RateLimit"))
		for range 19 {
			s.call("GET", path, "").is(http.StatusOK)
		}
		writes := s.store.writes
		late := s.call("POST", path, minimal)
		require.Equal(t, http.StatusTooManyRequests, late.status)
		require.Equal(t, "rate_limited", late.problem().Code)
		require.Equal(t, "1", late.header.Get("Retry-After"))
		require.Equal(t, `"tenant";r=0;t=10`, late.header.Get("RateLimit"))
		require.Equal(t, writes, s.store.writes)
		require.Equal(t, http.StatusTooManyRequests, s.call("GET", path, "", withKey(readKey)).status, "another key of the tenant is no other bucket")
		s.call("GET", path, "", withKey(otherKey)).is(http.StatusOK)
		s.call("GET", "/healthz", "").is(http.StatusOK)

		time.Sleep(500 * time.Millisecond)
		s.call("GET", path, "").is(http.StatusOK)
		require.Equal(t, http.StatusTooManyRequests, s.call("GET", path, "").status)
		time.Sleep(time.Hour)
		require.Equal(t, `"tenant";r=19;t=1`, s.call("GET", path, "").header.Get("RateLimit"), "no more than the burst gathers")
	})
}

func TestRateLimitHeadersAreAbsentWithoutALimit(t *testing.T) {
	t.Parallel()
	s := newService(t)
	a := s.call("GET", "/v1/endpoints", "")
	require.Empty(t, a.header.Get("RateLimit"))
	require.Empty(t, a.header.Get("RateLimit-Policy"))
}

func TestEveryAnswerIsSafeInABrowser(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, path := range []string{"/v1/endpoints", "/nowhere", "/healthz", "/openapi.yaml", "/v1/endpoints?x=1"} {
		header := s.call("GET", path, "", withHeader("Origin", "https://evil.example")).header
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "default-src 'none'; frame-ancestors 'none'", header.Get("Content-Security-Policy"), path)
		require.Equal(t, "no-referrer", header.Get("Referrer-Policy"), path)
		require.Equal(t, "DENY", header.Get("X-Frame-Options"), path)
		require.Equal(t, "no-store", header.Get("Cache-Control"), path)
		for name := range header {
			require.False(t, strings.HasPrefix(name, "Access-Control-"), "%s: %s", path, name)
		}
	}
}

func TestOnlyAllowedOriginsAreShared(t *testing.T) {
	t.Parallel()
	s := newServiceWith(t, httpapi.Config{Origins: []string{"https://console.example"}})
	allowed, asks := withHeader("Origin", "https://console.example"), withHeader("Access-Control-Request-Method", "PATCH")
	a := s.call("GET", "/v1/endpoints", "", allowed)
	require.Equal(t, "https://console.example", a.header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, a.header.Get("Access-Control-Expose-Headers"), "ETag")
	require.Contains(t, a.header.Values("Vary"), "Origin")
	require.Empty(t, a.header.Get("Access-Control-Allow-Credentials"))

	for _, origin := range []string{"https://evil.example", "null", "https://console.example.evil.example", "HTTPS://console.example", ""} {
		require.Empty(t, s.call("GET", "/v1/endpoints", "", withHeader("Origin", origin)).header.Get("Access-Control-Allow-Origin"), origin)
		for name := range preflight(s, withHeader("Origin", origin), asks).Header() {
			require.False(t, strings.HasPrefix(name, "Access-Control-"), "%q: %s", origin, name)
		}
	}

	w := preflight(s, allowed, asks)
	require.Equal(t, http.StatusNoContent, w.Code, "the browser's question needs no key")
	require.Contains(t, w.Header().Get("Access-Control-Allow-Methods"), "PATCH")
	require.Contains(t, w.Header().Get("Access-Control-Allow-Headers"), "Authorization")
	require.Equal(t, http.StatusUnauthorized, s.call("GET", "/v1/endpoints", "", allowed, withKey("")).status)
}

// preflight sends the CORS preflight request of a browser.
func preflight(s *service, changes ...request) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodOptions, "/v1/endpoints", nil)
	for _, change := range changes {
		change(r)
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return w
}

func TestLargeAnswersAreCompressedOnRequest(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.register(minimal)
	plain := s.call("GET", "/openapi.yaml", "")
	require.Empty(t, plain.header.Get("Content-Encoding"))
	require.Contains(t, plain.header.Values("Vary"), "Accept-Encoding")
	for accepts, compressed := range map[string]bool{
		"gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0": false, "br": false, "": false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.yaml", nil)
		r.Header.Set("Accept-Encoding", accepts)
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		if !compressed {
			require.Empty(t, w.Header().Get("Content-Encoding"), accepts)
			require.Equal(t, plain.body, w.Body.Bytes())
			continue
		}
		require.Equal(t, "gzip", w.Header().Get("Content-Encoding"), accepts)
		require.Empty(t, w.Header().Get("Content-Length"))
		require.Less(t, w.Body.Len(), len(plain.body)/3)
		unpacked, err := gzip.NewReader(w.Body)
		require.NoError(t, err)
		text, err := io.ReadAll(unpacked)
		require.NoError(t, err)
		require.Equal(t, plain.body, text)
	}
	small := s.call("GET", "/healthz", "", withHeader("Accept-Encoding", "gzip"))
	require.Empty(t, small.header.Get("Content-Encoding"), "a small answer is not worth it")
	require.Equal(t, "ok", small.is(http.StatusOK)["status"])
	refused := s.call("POST", "/v1/endpoints", `{`, withHeader("Accept-Encoding", "gzip"))
	require.Equal(t, "invalid_json", refused.problem().Code)
	archived := s.call("DELETE", "/v1/endpoints/"+s.only().ID.String(), "", withHeader("Accept-Encoding", "gzip"))
	require.Equal(t, http.StatusNoContent, archived.status)
}

func TestEveryRequestIsLoggedWithoutSecrets(t *testing.T) {
	t.Parallel()
	s := newService(t)
	id := s.register(minimal)
	s.call("GET", "/v1/endpoints/"+id+"?canary=secret", "", withHeader("X-Request-Id", "r7"), withHeader("Cookie", "canary=1"))
	s.call("GET", "/canary/"+id, "")
	s.call("CANARY", "/v1/endpoints", "")
	s.call("GET", "/v1/endpoints", "", withKey("rbt_canary"))
	logs := s.logs.String()
	require.Contains(t, logs, "request_id=r7 method=GET route=/v1/endpoints/{id} status=400")
	require.Contains(t, logs, "remote_address=192.0.2.1 key_id=key_02000000-0000-0000-0000-000000000000")
	require.Contains(t, logs, "route=other status=404")
	require.Contains(t, logs, "method=other")
	for _, secret := range []string{"canary", "CANARY", writeKey, id} {
		require.NotContains(t, logs, secret)
	}
	s.logs.Reset()
	s.call("GET", "/healthz", "")
	require.Contains(t, s.logs.String(), "level=DEBUG")
	require.NotContains(t, s.logs.String(), "level=INFO")
}

func TestForwardedHeadersOfClientsAreIgnored(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.call("POST", "/v1/keys", `{"name":"k","scopes":["read"]}`, withKey(adminKey),
		withHeader("X-Forwarded-For", "203.0.113.9"), withHeader("X-Real-Ip", "203.0.113.9"), withHeader("X-Request-Id", "r9"))
	entry := s.call("GET", "/v1/audit", "", withKey(adminKey)).is(http.StatusOK)["items"].([]any)[0].(map[string]any)
	require.Equal(t, "192.0.2.1", entry["remoteAddress"])
	require.Equal(t, "r9", entry["requestId"])
	require.Equal(t, map[string]any{"keyId": "key_03000000-0000-0000-0000-000000000000", "name": "admin"}, entry["actor"])
}

// TestTheClientIsTheNearestUntrustedAddress has forwarded headers of trusted and untrusted proxies.
// Only a trusted proxy can name the client.
func TestTheClientIsTheNearestUntrustedAddress(t *testing.T) {
	t.Parallel()
	const connected = "192.0.2.1" // as every request of the harness
	for name, tc := range map[string]struct {
		proxies   string // comma-separated
		forwarded []string
		want      string
	}{
		"NoProxies":          {"", []string{"203.0.113.9"}, connected},
		"NotAProxy":          {"10.0.0.0/8", []string{"203.0.113.9"}, connected},
		"OneProxy":           {"192.0.2.0/24", []string{"203.0.113.9"}, "203.0.113.9"},
		"Spoofed":            {"192.0.2.0/24", []string{"198.51.100.7, 203.0.113.9"}, "203.0.113.9"},
		"SpoofedInALine":     {"192.0.2.0/24", []string{"198.51.100.7", "203.0.113.9"}, "203.0.113.9"},
		"SpoofedAsAProxy":    {"192.0.2.0/24,10.0.0.0/8", []string{"10.9.9.9, 203.0.113.9, 10.0.0.1"}, "203.0.113.9"},
		"TwoProxies":         {"192.0.2.0/24,10.0.0.0/8", []string{"198.51.100.7,203.0.113.9 ,10.0.0.1"}, "203.0.113.9"},
		"ProxiesOnly":        {"192.0.2.0/24,10.0.0.0/8", []string{"10.0.0.2, 10.0.0.1"}, "10.0.0.2"},
		"NoHeader":           {"192.0.2.0/24", nil, connected},
		"Nonsense":           {"192.0.2.0/24", []string{"203.0.113.9, <script>"}, connected},
		"NonsenseOfAProxy":   {"192.0.2.0/24,10.0.0.0/8", []string{"203.0.113.9, unknown, 10.0.0.1"}, "10.0.0.1"},
		"Empty":              {"192.0.2.0/24", []string{"203.0.113.9,"}, connected},
		"Port":               {"192.0.2.0/24", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		"IPv6":               {"192.0.2.0/24", []string{"2001:db8::9"}, "2001:db8::9"},
		"IPv6WithAPort":      {"192.0.2.0/24", []string{"[2001:db8::9]:4711"}, "2001:db8::9"},
		"IPv6InBrackets":     {"192.0.2.0/24", []string{"[2001:db8::9]"}, "2001:db8::9"},
		"MappedIsNoDisguise": {"192.0.2.0/24,10.0.0.0/8", []string{"203.0.113.9, ::ffff:10.0.0.1"}, "203.0.113.9"},
		"ZoneIsNoDisguise":   {"192.0.2.0/24", []string{"fe80::1%eth0"}, "fe80::1"},
		"ManyHops":           {"192.0.2.0/24,10.0.0.0/8", []string{"203.0.113.9" + strings.Repeat(",10.0.0.1", 5000)}, "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var settings httpapi.Config
			for text := range strings.SplitSeq(tc.proxies, ",") {
				if text != "" {
					settings.Proxies = append(settings.Proxies, netip.MustParsePrefix(text))
				}
			}
			s := newServiceWith(t, settings)
			s.call("POST", "/v1/keys", `{"name":"k","scopes":["read"]}`, withKey(adminKey), func(r *http.Request) {
				r.Header["X-Forwarded-For"] = tc.forwarded
				r.Header.Set("X-Real-Ip", "198.51.100.66")
				r.Header.Set("Forwarded", "for=198.51.100.66")
			}).is(http.StatusCreated)
			entry := s.call("GET", "/v1/audit", "", withKey(adminKey)).is(http.StatusOK)["items"].([]any)[0].(map[string]any)
			require.Equal(t, tc.want, entry["remoteAddress"])
			require.Contains(t, s.logs.String(), "route=/v1/keys status=201", "the access log tells it too")
			require.Contains(t, s.logs.String(), "remote_address="+tc.want+" ")
		})
	}
}

func TestAPanicIsCounted(t *testing.T) {
	t.Parallel()
	s := newService(t)
	require.Contains(t, s.metrics(), `rubato_panics_total{source="request"} 0`)
	s.store.endpoints = nil
	s.call("POST", "/v1/endpoints", minimal).is(http.StatusInternalServerError)
	require.Contains(t, s.metrics(), `rubato_panics_total{source="request"} 1`)
}
