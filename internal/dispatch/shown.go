package dispatch

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"rubato/internal/budget"
	"rubato/internal/egress"
	"rubato/internal/redact"
	"rubato/internal/runs"
	"rubato/internal/secrets"
)

// Limits of the texts in the result of a test, so that the result can be stored under an
// idempotency key even if every character is escaped. Success rules still see the whole captured
// answer.
const (
	// shownHead limits the head of a response body.
	shownHead = 100 << 10 // bytes
	// shownTail limits the tail of a response body.
	shownTail = 16 << 10 // bytes
	// shownRequest limits the request body.
	shownRequest = 16 << 10 // bytes
	// shownFields limits the number of header values.
	shownFields = 100
	// shownValue limits each header value.
	shownValue = 256 // bytes
)

// shorten returns an outcome with its body and tail cut to the limits of a test result.
func shorten(o runs.Outcome) runs.Outcome {
	if len(o.Body) > shownHead {
		o.Body, o.Truncated = o.Body[:shownHead], true
	}
	if extra := len(o.Tail) - shownTail; extra > 0 {
		o.Tail = o.Tail[extra:]
	}
	return o
}

// shown returns the sent request without secrets. It hides header fields that look like credentials
// by name, and every occurrence of a secret, even of a short one.
func (r *outgoing) shown(client *egress.Client) *runs.SentRequest {
	erase := secrets.NewEraser(append(slices.Clone(r.values), r.token)...).Replace
	sent := r.Request
	sent.Header = (*redact.Set)(nil).Header(r.Header, nil)
	body := []byte(erase(string(r.Body)))
	return &runs.SentRequest{
		Method: r.Method,
		URL:    erase(r.URL),
		Header: bounded(client.Header(sent), erase),
		Body:   body[:min(len(body), shownRequest)],
		Cut:    len(body) > shownRequest,
	}
}

// shownAnswer returns the header of an answer. The endpoint's redaction rules and the secrets of
// the request are applied.
func (r *outgoing) shownAnswer(t *Target, answer egress.Response) runs.Header {
	mask := secrets.NewMask(r.values...)
	return bounded(t.Redact.Header(maskedHeader(mask, answer.Header), budget.New(nil)), mask.Text)
}

// bounded returns the first shownFields values of a header, in the order of field names. Long
// values are cut.
func bounded(header http.Header, hide func(string) string) runs.Header {
	shown := make(runs.Header, min(len(header), shownFields))
	left := shownFields
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if left == 0 {
				return shown
			}
			left--
			canonical := http.CanonicalHeaderKey(name)
			shown[canonical] = append(shown[canonical], printable(hide(value), shownValue))
		}
	}
	return shown
}

// printable returns a target's text on one line, cut to at most limit bytes. Control characters
// become spaces, so that the text cannot change a terminal.
func printable(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
