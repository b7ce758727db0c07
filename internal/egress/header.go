package egress

import (
	"net/http"
	"strings"
)

const (
	maxHeaderName  = 256     // bytes
	maxHeaderValue = 8 << 10 // bytes
)

// CheckHeader returns the violation of a user's header field, or nil. The caller checks for
// duplicate names.
func CheckHeader(name, value string) *Violation {
	if v := checkSent(name, value); v != nil {
		return v
	}
	if signs(name) { // Because signing would silently replace it.
		return forbiddenHeader()
	}
	return nil
}

// checkSent returns the violation of any header field of a request, including a signature, or nil.
func checkSent(name, value string) *Violation {
	switch {
	case name == "" || strings.ContainsFunc(name, notToken):
		return &Violation{
			Code:    "header_invalid",
			Message: "must have a name of ASCII letters, digits and !#$%&'*+-.^_`|~ only",
		}
	case len(name) > maxHeaderName || len(value) > maxHeaderValue:
		return &Violation{Code: "too_long", Message: "must have a name of at most 256 bytes and a value of at most 8192"}
	case strings.ContainsFunc(value, isControl) || strings.Trim(value, " \t") != value:
		return &Violation{
			Code:    "header_invalid",
			Message: "must have a value without line breaks and control characters, and without spaces around it",
		}
	case reserved(strings.ToLower(name)):
		return forbiddenHeader()
	}
	return nil
}

func forbiddenHeader() *Violation {
	return &Violation{
		Code:    "header_forbidden",
		Message: "must not be set: Rubato or the connection sets this header",
	}
}

// signs reports whether a header belongs to a signature by Standard Webhooks.
func signs(name string) bool {
	switch strings.ToLower(name) {
	case "webhook-id", "webhook-timestamp", "webhook-signature":
		return true
	default:
		return false
	}
}

// notToken reports whether r is outside the token characters of RFC 9110.
func notToken(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	default:
		return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
}

func isControl(r rune) bool {
	return r < ' ' && r != '\t' || r == 0x7f
}

// reserved reports whether the header name, in lower case, belongs to the connection or to Rubato.
func reserved(name string) bool {
	switch name {
	case "host", "content-length", "transfer-encoding", "trailer", "te", "upgrade", "expect", "keep-alive", "connection",
		"http2-settings", "idempotency-key", "traceparent":
		return true
	default:
		return strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "rubato-")
	}
}

// credential reports whether a header of this name probably carries credentials, so that it must
// not follow a redirect to another host.
func credential(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{
		"auth", "cookie", "token", "secret", "key", "password", "passwd", "credential", "session", "signature", "jwt",
	} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// Header returns the header of a request, without the fields of the connection, such as Host and
// Content-Length.
func (c *Client) Header(r Request) http.Header { return c.wireHeader(r.Header, r.Meta) }

// wireHeader merges the user's header with meta, which has priority.
func (c *Client) wireHeader(user, meta http.Header) http.Header {
	header := make(http.Header, len(user)+len(meta)+2) // Room for User-Agent and Accept-Encoding.
	header["User-Agent"] = c.userAgent
	for _, set := range []http.Header{user, meta} {
		for name, values := range set {
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	return header
}
