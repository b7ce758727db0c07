package egress

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxURL  = 2048 // bytes
	maxHost = 253  // bytes, by the limit of DNS
)

// Violation is a broken rule: a stable code, and a message with the right form.
type Violation struct {
	// url_invalid, url_scheme, url_userinfo, url_port, url_forbidden, header_invalid, ...
	Code    string
	Message string // completes a sentence that begins with the field name
}

// CheckURL returns the violation of raw as a target URL, or nil. It does not resolve names, because
// the policy checks addresses at every dial.
func (p *Policy) CheckURL(raw string) *Violation {
	_, violation := p.parse(raw)
	return violation
}

func (p *Policy) parse(raw string) (*url.URL, *Violation) {
	if len(raw) > maxURL {
		return nil, &Violation{Code: "too_long", Message: "must be at most 2048 bytes"}
	}
	if !utf8.ValidString(raw) || strings.ContainsFunc(raw, needsEscape) {
		return nil, &Violation{
			Code:    "url_invalid",
			Message: "must not hold spaces, backslashes or invisible characters; percent-encode them",
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, malformedURL()
	}
	for _, check := range []func(*url.URL) *Violation{checkScheme, checkUserinfo, p.checkHost, p.checkPort} {
		if violation := check(u); violation != nil {
			return nil, violation
		}
	}
	return u, nil
}

func needsEscape(r rune) bool {
	return r == ' ' || r == '\\' || !unicode.IsPrint(r)
}

func malformedURL() *Violation {
	return &Violation{Code: "url_invalid", Message: "must be an absolute URL such as https://api.example.com/path"}
}

func checkScheme(u *url.URL) *Violation {
	switch u.Scheme {
	case "http", "https":
		return nil
	case "":
		return malformedURL()
	default:
		return &Violation{Code: "url_scheme", Message: "must begin with http:// or https://"}
	}
}

func checkUserinfo(u *url.URL) *Violation {
	if u.User == nil {
		return nil
	}
	return &Violation{
		Code:    "url_userinfo",
		Message: "must not hold a user name or password; send an Authorization header instead",
	}
}

func (p *Policy) checkHost(u *url.URL) *Violation {
	host := u.Hostname()
	port := portNumber(u)
	if p.isOwnURL(host, port) && !p.namesPort(host, port) {
		return forbiddenAddress()
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if !p.permitsAs(host, port, addr) {
			return forbiddenAddress()
		}
		return nil
	}
	name := normalName(host)
	switch {
	case endsInNumber(name):
		return &Violation{
			Code:    "url_forbidden",
			Message: "must write an IPv4 address as four decimal numbers such as 192.0.2.7",
		}
	case !validName(name) || strings.ContainsFunc(host, isForeign):
		return &Violation{
			Code:    "url_invalid",
			Message: "must have a host name of ASCII letters, digits, hyphens and dots (xn-- form for others)",
		}
	case !p.permitsName(name) && !p.namesHost(host, port):
		return &Violation{Code: "url_forbidden", Message: "must name a public host; local and internal names may not be called"}
	}
	return nil
}

// forbiddenAddress returns the same violation for every forbidden address, because a precise
// message would help to probe the network.
func forbiddenAddress() *Violation {
	return &Violation{Code: "url_forbidden", Message: "must name a public address, or one that the operator allows"}
}

// portNumber returns the port of u, or zero if it is invalid.
func portNumber(u *url.URL) uint16 {
	port, err := strconv.ParseUint(portOf(u), 10, 16)
	if err != nil {
		return 0
	}
	return uint16(port)
}

func (p *Policy) checkPort(u *url.URL) *Violation {
	port := portNumber(u)
	if port == 0 || u.Port() == "" && strings.HasSuffix(u.Host, ":") {
		return &Violation{Code: "url_port", Message: "must have a port from 1 to 65535, or none"}
	}
	host := u.Hostname()
	if p.permitsPort(port) || p.namesPort(host, port) || len(p.rules.Ports) == 0 && p.opensHost(host) {
		return nil
	}
	if len(p.rules.Ports) > 0 {
		return &Violation{Code: "url_port", Message: "must use a port that the operator permits"}
	}
	return &Violation{
		Code:    "url_port",
		Message: "must not use port " + strconv.Itoa(int(port)) + ", which serves another protocol than HTTP",
	}
}

// opensHost reports whether the allow list of prefixes covers host: an address in it, or a loopback
// name. If Rules.Ports is empty, all ports of such a host are permitted, because the operator is
// responsible for it.
func (p *Policy) opensHost(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.opened(addr.Unmap())
	}
	v4, v6 := p.opensLoopback()
	return isLoopbackName(normalName(host)) && (v4 || v6)
}

func (p *Policy) permitsName(name string) bool {
	if isLoopbackName(name) {
		return p.opensHost(name)
	}
	return !isInternalName(name) || p.opensPrivate()
}

// normalName returns host in lower case and without the final dot.
func normalName(host string) string {
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isLoopbackName(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

func isInternalName(name string) bool {
	if !strings.Contains(name, ".") || name == "home.arpa" {
		return true
	}
	for _, suffix := range []string{".local", ".internal", ".svc", ".home.arpa"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// endsInNumber reports whether some resolvers would parse name as an IPv4 address, in a short,
// octal or hexadecimal form.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if digits, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

func validName(name string) bool {
	if name == "" || len(name) > maxHost {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if !validLabel(label) {
			return false
		}
	}
	return true
}

// isForeign reports whether r is not ASCII. Such letters are refused, because some become ASCII
// letters in lower case.
func isForeign(r rune) bool { return r > unicode.MaxASCII }

func validLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(label, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}
