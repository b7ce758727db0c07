package config

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Egress holds the rules and the timeouts of outbound calls.
type Egress struct {
	// Allow lists private prefixes that may be called.
	Allow []netip.Prefix
	// AllowHosts lists hosts that may be called at any address: a name, *.name for all names below
	// it, or host:port for one port.
	AllowHosts []string
	// Ports lists the ports that may be called. If it is empty, all may be called but those of
	// well-known other protocols.
	Ports []Ports
	// Proxy is the URL of an HTTP proxy for every call; empty for none.
	Proxy string
	// MaxPerHost is the concurrency limit per host and port.
	MaxPerHost int
	// SharedHosts makes all tenants share the circuit breakers of hosts.
	SharedHosts bool
	// LatencyLimits lets slow answers limit the requests in flight to a host.
	LatencyLimits bool
	// AllowSkipVerify permits endpoints that do not verify TLS certificates.
	AllowSkipVerify bool
	// Contact is the operator's contact in the User-Agent; empty for none.
	Contact string
	// Connect is the timeout of DNS resolution and connecting.
	Connect time.Duration
	// TLS is the timeout of the TLS handshake.
	TLS time.Duration
	// Header is the timeout from the first byte of a response to the end of its header.
	Header time.Duration
	// Idle is the timeout between two bytes of a body.
	Idle time.Duration
}

// Ports is a range of ports, both ends included.
type Ports struct{ First, Last uint16 }

// hostSettings returns the settings of breakers and limits of hosts.
func hostSettings() []Setting {
	return []Setting{
		{
			Name:    "RUBATO_EGRESS_SHARED_HOSTS",
			Default: "false",
			Doc:     "true: all tenants share the circuit breaker of a host; false: each tenant has its own, so that no tenant can hold back the runs of another, or see or change its breakers",
			set:     func(c *Config, v string) error { return boolean(&c.Egress.SharedHosts, v) },
			show:    func(c Config) string { return strconv.FormatBool(c.Egress.SharedHosts) },
		},
		{
			Name:    "RUBATO_EGRESS_LATENCY_LIMITS",
			Default: "true",
			Doc:     "true: a host whose answers get slow, each compared with the usual latency of its endpoint, gets fewer requests in flight, unless the worker is overloaded or the answers of most hosts got slower; false: only answers 429 and 503 limit a host",
			set:     func(c *Config, v string) error { return boolean(&c.Egress.LatencyLimits, v) },
			show:    func(c Config) string { return strconv.FormatBool(c.Egress.LatencyLimits) },
		},
	}
}

// egressSettings returns the settings of outbound calls.
func egressSettings() []Setting {
	limit := func(name, doc string, of func(*Egress) *time.Duration, def string) Setting {
		in := span{100 * time.Millisecond, 30 * time.Minute}
		return Setting{
			Name:    name,
			Default: def,
			Doc:     doc,
			set:     func(c *Config, v string) error { return in.read(of(&c.Egress), v) },
			show:    func(c Config) string { return brief(*of(&c.Egress)) },
		}
	}
	return []Setting{
		{
			Name: "RUBATO_EGRESS_ALLOW",
			Doc:  "comma-separated private prefixes that may be called, such as 10.1.0.0/16",
			set:  func(c *Config, v string) error { return prefixes(&c.Egress.Allow, v) },
			show: func(c Config) string { return joined(c.Egress.Allow) },
		},
		{
			Name: "RUBATO_EGRESS_ALLOW_HOSTS",
			Doc:  "comma-separated hosts that may be called at any address, such as db.corp.example, *.corp.example or 10.0.0.7:9090; an entry with a port even permits Rubato's own listeners and database",
			set:  func(c *Config, v string) error { return hosts(&c.Egress.AllowHosts, v) },
			show: func(c Config) string { return strings.Join(c.Egress.AllowHosts, ",") },
		},
		{
			Name: "RUBATO_EGRESS_PORTS",
			Doc:  "comma-separated ports and ranges that may be called, such as 80,443,8000-8999; default: all but 22, 23, 25, 53, 2375, 5432, 6379, 9200 and 11211",
			set:  func(c *Config, v string) error { return ports(&c.Egress.Ports, v) },
			show: func(c Config) string { return joinedPorts(c.Egress.Ports) },
		},
		{
			Name:   "RUBATO_EGRESS_PROXY",
			Doc:    "HTTP proxy that all calls go through by CONNECT, such as http://user:password@proxy:3128; targets are resolved and checked first",
			Secret: true,
			url:    true,
			set:    func(c *Config, v string) error { return proxyURL(&c.Egress.Proxy, v) },
			show:   func(c Config) string { return c.Egress.Proxy },
		},
		{
			Name:    "RUBATO_EGRESS_MAX_PER_HOST",
			Default: "100",
			Doc:     "maximum number of concurrent requests of one worker to one host and port; further requests queue within their timeout",
			set:     func(c *Config, v string) error { return count(&c.Egress.MaxPerHost, v) },
			show:    func(c Config) string { return strconv.Itoa(c.Egress.MaxPerHost) },
		},
		{
			Name:    "RUBATO_EGRESS_ALLOW_SKIP_VERIFY",
			Default: "false",
			Doc:     "true: endpoints may turn off the verification of TLS certificates (tls.skipVerify)",
			set:     func(c *Config, v string) error { return boolean(&c.Egress.AllowSkipVerify, v) },
			show:    func(c Config) string { return strconv.FormatBool(c.Egress.AllowSkipVerify) },
		},
		{
			Name: "RUBATO_USER_AGENT_CONTACT",
			Doc:  "contact for the owners of targets, a URL or a mail address, sent in the User-Agent",
			set:  func(c *Config, v string) error { return contact(&c.Egress.Contact, v) },
			show: func(c Config) string { return c.Egress.Contact },
		},
		limit("RUBATO_EGRESS_CONNECT_TIMEOUT", "timeout of DNS resolution and connecting, within the timeout of a call",
			func(e *Egress) *time.Duration { return &e.Connect }, "10s"),
		limit("RUBATO_EGRESS_TLS_TIMEOUT", "timeout of the TLS handshake",
			func(e *Egress) *time.Duration { return &e.TLS }, "10s"),
		limit("RUBATO_EGRESS_HEADER_TIMEOUT", "timeout of the response header from its first byte; the wait for that byte is bounded by the timeout of the call alone",
			func(e *Egress) *time.Duration { return &e.Header }, "30s"),
		limit("RUBATO_EGRESS_IDLE_TIMEOUT", "timeout between two bytes of a response body",
			func(e *Egress) *time.Duration { return &e.Idle }, "30s"),
	}
}

// hostEntry matches a name, a wildcard for all names below one, or an address with a port.
var hostEntry = regexp.MustCompile(`^(\*\.)?([A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+(:[0-9]{1,5})?$|^\[[0-9A-Fa-f:.]+\]:[0-9]{1,5}$`)

func hosts(target *[]string, value string) error {
	var list []string
	for part := range strings.SplitSeq(value, ",") {
		host := strings.TrimSpace(part)
		if !hostEntry.MatchString(host) {
			return errors.New("must be hosts such as db.corp.example, *.corp.example or 10.0.0.7:9090, separated by commas")
		}
		list = append(list, host)
	}
	*target = list
	return nil
}

func ports(target *[]Ports, value string) error {
	var list []Ports
	for part := range strings.SplitSeq(value, ",") {
		first, last, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || a == 0 || a > b {
			return errors.New("must be ports or ranges of them such as 443,8000-8999, from 1 to 65535")
		}
		list = append(list, Ports{
			First: uint16(a),
			Last:  uint16(b),
		})
	}
	*target = list
	return nil
}

func joinedPorts(list []Ports) string {
	texts := make([]string, 0, len(list))
	for _, p := range list {
		text := strconv.Itoa(int(p.First))
		if p.Last != p.First {
			text += "-" + strconv.Itoa(int(p.Last))
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

func proxyURL(target *string, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return errors.New("must be a URL such as http://proxy.example.com:3128")
	}
	*target = value
	return nil
}

func boolean(target *bool, value string) error {
	switch strings.ToLower(value) {
	case "true":
		*target = true
	case "false":
		*target = false
	default:
		return errors.New("must be true or false")
	}
	return nil
}

// maxContact keeps the User-Agent short enough for every server.
const maxContact = 200

func contact(target *string, value string) error {
	strange := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`()\`, r) }
	if len(value) > maxContact || strings.ContainsFunc(value, strange) {
		return errors.New("must be a URL or a mail address, such as https://example.com/bot or ops@example.com")
	}
	*target = value
	return nil
}
