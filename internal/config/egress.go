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

// Egress says what may be called, and how.
type Egress struct {
	Allow           []netip.Prefix // prefixes that may be called although they are private
	AllowHosts      []string       // hosts that may be called wherever they lead; *.name for all below a name, host:port for one port
	Ports           []Ports        // that may be called; empty: all but those of well-known other protocols
	Proxy           string         // URL of http or https, through which every call goes; empty: none
	MaxPerHost      int            // requests under way to one host and port
	AllowSkipVerify bool           // endpoints may trust whoever answers
	Contact         string         // who to ask about our calls, in the User-Agent; empty: nobody
	Connect         time.Duration  // resolving and connecting
	TLS             time.Duration  // the handshake
	Header          time.Duration  // from the first byte of an answer to the end of its header
	Idle            time.Duration  // between two bytes of a body
}

// Ports is a range of ports, both ends included.
type Ports struct{ First, Last uint16 }

// egressSettings returns what may be said about outbound calls.
func egressSettings() []Setting {
	limit := func(name, doc string, of func(*Egress) *time.Duration, def string) Setting {
		in := span{100 * time.Millisecond, 30 * time.Minute}
		return Setting{
			Name: name, Default: def, Doc: doc,
			set:  func(c *Config, v string) error { return in.read(of(&c.Egress), v) },
			show: func(c Config) string { return brief(*of(&c.Egress)) },
		}
	}
	return []Setting{
		{
			Name: "RUBATO_EGRESS_ALLOW", Doc: "comma-separated prefixes that may be called although private, such as 10.1.0.0/16",
			set:  func(c *Config, v string) error { return prefixes(&c.Egress.Allow, v) },
			show: func(c Config) string { return joined(c.Egress.Allow) },
		},
		{
			Name: "RUBATO_EGRESS_ALLOW_HOSTS", Doc: "comma-separated hosts that may be called wherever they lead, such as db.corp.example, *.corp.example or 10.0.0.7:9090; with a port even a listener or the database of Rubato itself",
			set:  func(c *Config, v string) error { return hosts(&c.Egress.AllowHosts, v) },
			show: func(c Config) string { return strings.Join(c.Egress.AllowHosts, ",") },
		},
		{
			Name: "RUBATO_EGRESS_PORTS", Doc: "comma-separated ports and ranges that may be called, such as 80,443,8000-8999; unless set, all but 22, 23, 25, 53, 2375, 5432, 6379, 9200 and 11211",
			set:  func(c *Config, v string) error { return ports(&c.Egress.Ports, v) },
			show: func(c Config) string { return joinedPorts(c.Egress.Ports) },
		},
		{
			Name: "RUBATO_EGRESS_PROXY", Doc: "an HTTP proxy through which every call goes by CONNECT, such as http://user:password@proxy:3128; targets are resolved and judged before", Secret: true, url: true,
			set:  func(c *Config, v string) error { return proxyURL(&c.Egress.Proxy, v) },
			show: func(c Config) string { return c.Egress.Proxy },
		},
		{
			Name: "RUBATO_EGRESS_MAX_PER_HOST", Default: "100", Doc: "how many requests one worker has under way to one host and port; further ones wait inside their timeout",
			set:  func(c *Config, v string) error { return count(&c.Egress.MaxPerHost, v) },
			show: func(c Config) string { return strconv.Itoa(c.Egress.MaxPerHost) },
		},
		{
			Name: "RUBATO_EGRESS_ALLOW_SKIP_VERIFY", Default: "false", Doc: "whether endpoints may trust whoever answers (tls.skipVerify): true or false",
			set:  func(c *Config, v string) error { return boolean(&c.Egress.AllowSkipVerify, v) },
			show: func(c Config) string { return strconv.FormatBool(c.Egress.AllowSkipVerify) },
		},
		{
			Name: "RUBATO_USER_AGENT_CONTACT", Doc: "whom targets may ask about our calls, a URL or an address of mail, sent in the User-Agent",
			set:  func(c *Config, v string) error { return contact(&c.Egress.Contact, v) },
			show: func(c Config) string { return c.Egress.Contact },
		},
		limit("RUBATO_EGRESS_CONNECT_TIMEOUT", "how long resolving a name and connecting may take, inside the timeout of a call",
			func(e *Egress) *time.Duration { return &e.Connect }, "10s"),
		limit("RUBATO_EGRESS_TLS_TIMEOUT", "how long agreeing on a TLS session may take",
			func(e *Egress) *time.Duration { return &e.TLS }, "10s"),
		limit("RUBATO_EGRESS_HEADER_TIMEOUT", "how long the header of an answer may take from its first byte; waiting for that byte is bounded by the timeout of the call alone",
			func(e *Egress) *time.Duration { return &e.Header }, "30s"),
		limit("RUBATO_EGRESS_IDLE_TIMEOUT", "how long the body of an answer may pause",
			func(e *Egress) *time.Duration { return &e.Idle }, "30s"),
	}
}

// hostEntry is a name, all names below one, or an address with a port.
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
		list = append(list, Ports{First: uint16(a), Last: uint16(b)})
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
		return errors.New("must be a URL or an address of mail, such as https://example.com/bot or ops@example.com")
	}
	*target = value
	return nil
}
