package egress

import (
	"maps"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// badURLs are what registration refuses where nothing private is allowed, with the code.
func badURLs() map[string]string {
	return map[string]string{
		"":                                                   "url_invalid",
		"api.example.com":                                    "url_invalid",
		"//api.example.com/":                                 "url_invalid",
		"/path":                                              "url_invalid",
		"https://":                                           "url_invalid",
		"https:/api.example.com":                             "url_invalid",
		"https:api.example.com":                              "url_invalid",
		"https://:8443/":                                     "url_invalid",
		"https://?q":                                         "url_invalid",
		"http://api.example.com/\u0001":                      "url_invalid",
		"http://api.example.com/a b":                         "url_invalid",
		"http://api.example.com\\@evil.test":                 "url_invalid",
		"http://api.example.com/\xc3\x28":                    "url_invalid",
		"http://api.example.com/\u202egnp":                   "url_invalid",
		"http://api.example.com\r\nX: y":                     "url_invalid",
		"http://api..example.com":                            "url_invalid",
		"http://-api.example.com":                            "url_invalid",
		"http://exa mple.com":                                "url_invalid",
		"http://exa*mple.com":                                "url_invalid",
		"http://api.example.com:port":                        "url_invalid",
		"http://::1/":                                        "url_invalid",
		"http://[::1]:80:80/":                                "url_invalid",
		"http://[127.0.0.1]/":                                "url_invalid",
		"http://[::1/":                                       "url_invalid",
		"http://①②⑦.⓪.⓪.①/":                                  "url_invalid",
		"http://127。0。0。1/":                                  "url_invalid",
		"http://ｌｏｃａｌｈｏｓｔ/":                                  "url_invalid",
		"http://local\u00adhost/":                            "url_invalid",
		"http://%6c%6fcalhost/":                              "url_invalid",
		"http://%E2%91%A0/":                                  "url_invalid",
		"ssh://api.example.com":                              "url_scheme",
		"HTTPS+unix://x":                                     "url_scheme",
		"javascript:alert(1)":                                "url_scheme",
		"file:///etc/passwd":                                 "url_scheme",
		"unix:///var/run/docker.sock":                        "url_scheme",
		"gopher://example.com":                               "url_scheme",
		"https://u:p@api.example.com":                        "url_userinfo",
		"https://u@api.example.com":                          "url_userinfo",
		"https://@api.example.com":                           "url_userinfo",
		"https://a@b@api.example.com":                        "url_userinfo",
		"https://api.example.com:99999":                      "url_port",
		"https://api.example.com:0":                          "url_port",
		"https://api.example.com:":                           "url_port",
		"https://api.example.com:22":                         "url_port",
		"https://api.example.com:23":                         "url_port",
		"https://api.example.com:25":                         "url_port",
		"https://api.example.com:53":                         "url_port",
		"https://api.example.com:2375":                       "url_port",
		"https://api.example.com:5432":                       "url_port",
		"https://api.example.com:6379":                       "url_port",
		"https://api.example.com:9200":                       "url_port",
		"https://8.8.8.8:11211":                              "url_port",
		"http://127.0.0.2":                                   "url_forbidden",
		"http://10.1.2.3":                                    "url_forbidden",
		"http://172.16.0.1":                                  "url_forbidden",
		"http://192.168.0.10:8080":                           "url_forbidden",
		"http://169.254.1.1":                                 "url_forbidden",
		"http://100.127.255.254":                             "url_forbidden",
		"http://198.19.255.1":                                "url_forbidden",
		"http://250.0.0.1":                                   "url_forbidden",
		"http://[::1]":                                       "url_forbidden",
		"http://[::]":                                        "url_forbidden",
		"http://[::ffff:10.0.0.5]":                           "url_forbidden",
		"http://[64:ff9b::10.0.0.1]":                         "url_forbidden",
		"http://[2002:a00:1::1]":                             "url_forbidden",
		"http://[fd12::1]":                                   "url_forbidden",
		"http://[fe80::1%25eth0]":                            "url_forbidden",
		"http://localhost:9000":                              "url_forbidden",
		"http://LOCALHOST.":                                  "url_forbidden",
		"http://a.b.localhost":                               "url_forbidden",
		"http://3232235777":                                  "url_forbidden",
		"http://2130706433":                                  "url_forbidden",
		"http://0xa9fea9fe":                                  "url_forbidden",
		"http://0x7f.1":                                      "url_forbidden",
		"http://0177.0.0.1":                                  "url_forbidden",
		"http://127.1":                                       "url_forbidden",
		"http://0":                                           "url_forbidden",
		"http://0x":                                          "url_forbidden",
		"http://8.8.8.8.":                                    "url_forbidden",
		"http://256.256.256.256":                             "url_forbidden",
		"http://example.0x7F":                                "url_forbidden",
		"http://metadata.google.internal.":                   "url_forbidden",
		"http://printer.local":                               "url_forbidden",
		"http://db.default.svc":                              "url_forbidden",
		"http://db.default.svc.cluster.local":                "url_forbidden",
		"http://router.home.arpa":                            "url_forbidden",
		"http://home.arpa":                                   "url_forbidden",
		"http://intranet":                                    "url_forbidden",
		"http://" + strings.Repeat("a", 64) + ".example.com": "url_invalid",
		"http://" + strings.Repeat("abc.", 70) + "example.com":   "url_invalid",
		"http://api.example.com/" + strings.Repeat("a", 3000):    "too_long",
		"http://api.example.com/?q=" + strings.Repeat("a", 2023): "too_long",
	}
}

// oddURLs are more of them, in forms of addresses, ports, names and schemes that parsers disagree
// about.
func oddURLs() map[string]string {
	return map[string]string{
		"http://[::ffff:7f00:1]/":                "url_forbidden",
		"http://[0:0:0:0:0:ffff:127.0.0.1]/":     "url_forbidden",
		"http://[::127.0.0.1]/":                  "url_forbidden",
		"http://[2001:0:808:808::f5ff:fffe]/":    "url_forbidden",
		"http://[2a00:1450:1:2:0:5efe:7f00:1]/":  "url_forbidden",
		"http://[2a00:1450:1:2:200:5efe:a00:1]/": "url_forbidden",
		"http://[64:ff9b:1::a9fe:a9fe]/":         "url_forbidden",
		"http://[fd20:ce::254]/":                 "url_forbidden",
		"http://[2606:4700::1111%25eth0]/":       "url_forbidden",
		"http://[v1.fe80::1]/":                   "url_invalid",
		"http://[]/":                             "url_invalid",
		"http://[::1]x/":                         "url_invalid",
		"http://[fe80::1%eth0]/":                 "url_invalid",
		"http://8.8.8.8:65536/":                  "url_port",
		"http://8.8.8.8:00022/":                  "url_port",
		"http://8.8.8.8:+80/":                    "url_invalid",
		"http://8.8.8.8:0x50/":                   "url_invalid",
		"http://8.8.8.8:-1/":                     "url_invalid",
		"http://0300.0250.0.1/":                  "url_forbidden",
		"http://017700000001/":                   "url_forbidden",
		"http://1.2.3.0x4/":                      "url_forbidden",
		"http://1.2.3.4.5/":                      "url_forbidden",
		"http://127.0.0.1../":                    "url_invalid",
		"http://127.0.0.1%00/":                   "url_invalid",
		"http://127.0.0.1%2f/":                   "url_invalid",
		"http://127.0.0.1%23@evil/":              "url_userinfo",
		"http://evil%2f@127.0.0.1/":              "url_userinfo",
		"http://a.com;@127.0.0.1/":               "url_userinfo",
		"http://a.b\t.com/":                      "url_invalid",
		" http://a.com/":                         "url_invalid",
		"http:/\\a.com/":                         "url_invalid",
		"http://a.com%20/":                       "url_invalid",
		"http://localhost%2e/":                   "url_invalid",
		"http://\u0430pple.com/":                 "url_invalid",
		"http://\u212aelvin.com/":                "url_invalid",
		"http://\ufb01le.com/":                   "url_invalid",
		"http://a\u200b.com/":                    "url_invalid",
		"http://a\u2024com/":                     "url_invalid",
		"http://xn--/":                           "url_invalid",
		"http://a.com../":                        "url_invalid",
		"http://.a.com/":                         "url_invalid",
		"http://*/":                              "url_invalid",
		"http:///a.com":                          "url_invalid",
		"data:text/plain,x":                      "url_scheme",
		"dict://a:11211":                         "url_scheme",
		"ws://a.com":                             "url_scheme",
		"http+unix://a":                          "url_scheme",
		"view-source:http://a.com":               "url_scheme",
		"http://metadata/":                       "url_forbidden",
		"http://ip6-localhost/":                  "url_forbidden",
	}
}

func TestBadURLsAreRefused(t *testing.T) {
	t.Parallel()
	policy := NewPolicy(Rules{})
	all := badURLs()
	maps.Copy(all, oddURLs())
	for raw, code := range all {
		violation := policy.CheckURL(raw)
		require.NotNil(t, violation, raw)
		require.Equal(t, code, violation.Code, raw)
		require.NotEmpty(t, violation.Message)
	}
}

func TestGoodURLsPass(t *testing.T) {
	t.Parallel()
	policy := NewPolicy(Rules{})
	for _, raw := range []string{
		"https://api.example.com",
		"HTTPS://API.Example.COM:8443/a/b?c=d&e=%20#f",
		"http://example.com./",
		"http://sub_domain.example.com/",
		"http://xn--bcher-kva.example/",
		"http://1.1.1.1:8080/",
		"http://[2606:4700::1111]:80/",
		"http://[::ffff:8.8.8.8]/",
		"https://api.example.com/müller",
		"https://internal.example.com/",
		"https://localhost.example.com/",
		"https://0x7f.example.com/",
		"https://127.0.0.1.example.com/",
		"https://a.b.c.d.e.f.example/",
		"http://api.example.com/?q=" + strings.Repeat("a", 2022),
	} {
		require.Nil(t, policy.CheckURL(raw), raw)
	}
}

func TestAllowListDecidesOnHosts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		allow      []netip.Prefix
		pass, fail []string
	}{
		"Loopback": {
			allow: prefixes("127.0.0.0/8"),
			pass: []string{
				"http://localhost:8080", "http://127.0.0.1:9000", "http://a.localhost/", "http://127.0.0.1:22", "http://localhost:9200",
				"http://[::ffff:127.0.0.1]:6379",
			},
			fail: []string{
				"http://[::1]/", "http://10.0.0.1/", "http://intranet/", "http://127.1/", "http://metadata.google.internal/",
				"http://1.1.1.1:22", "http://example.com:22",
			},
		},
		"LoopbackIPv6": {
			allow: prefixes("::1/128"),
			pass:  []string{"http://localhost:8080", "http://[::1]:22/"},
			fail:  []string{"http://127.0.0.1/", "http://intranet/"},
		},
		"Private": {
			allow: prefixes("10.0.0.0/8"),
			pass:  []string{"http://10.1.2.3:9200/", "http://intranet/", "http://db.default.svc/", "http://x.internal/"},
			fail: []string{
				"http://localhost/", "http://192.168.0.1/", "http://intranet:22/", "http://169.254.169.254/", "http://2130706433/",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := NewPolicy(Rules{Allow: test.allow})
			for _, raw := range test.pass {
				require.Nil(t, policy.CheckURL(raw), raw)
			}
			for _, raw := range test.fail {
				require.NotNil(t, policy.CheckURL(raw), raw)
			}
		})
	}
}

func FuzzCheckURL(f *testing.F) {
	for raw := range badURLs() {
		f.Add(raw)
	}
	f.Add("https://api.example.com:8443/a?b=c#d")
	policy := NewPolicy(Rules{})
	f.Fuzz(func(t *testing.T, raw string) {
		u, violation := policy.parse(raw)
		if violation != nil {
			require.NotEmpty(t, violation.Code)
			require.NotEmpty(t, violation.Message)
			return
		}
		require.Contains(t, []string{"http", "https"}, u.Scheme)
		require.Nil(t, u.User)
		require.LessOrEqual(t, len(raw), maxURL)
		host := u.Hostname()
		require.NotEmpty(t, host)
		if addr, err := netip.ParseAddr(host); err == nil {
			require.True(t, policy.permits(addr), host)
			return
		}
		require.Contains(t, strings.TrimSuffix(host, "."), ".")
		again, err := url.Parse(u.String())
		require.NoError(t, err)
		require.Equal(t, u.Host, again.Host)
	})
}
