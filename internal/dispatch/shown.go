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

// What the result of a test shows at most, so that it is kept under an idempotency key however its texts are escaped. Answers are judged
// by all that the endpoint keeps of them.
const (
	shownHead    = 100 << 10 // bytes of an answer's body
	shownTail    = 16 << 10  // bytes of its end
	shownRequest = 16 << 10  // bytes of the body that was sent
	shownFields  = 100       // header fields
	shownValue   = 256       // bytes of a value
)

// shorten returns an outcome with what is shown of its body.
func shorten(o runs.Outcome) runs.Outcome {
	if len(o.Body) > shownHead {
		o.Body, o.Truncated = o.Body[:shownHead], true
	}
	if extra := len(o.Tail) - shownTail; extra > 0 {
		o.Tail = o.Tail[extra:]
	}
	return o
}

// shown returns the request as it was sent, without secrets: what looks like a credential by its name, and whatever a secret is part of,
// however short that is.
func (r *outgoing) shown(client *egress.Client) *runs.SentRequest {
	erase := secrets.NewEraser(append(slices.Clone(r.values), r.token)...).Replace
	sent := r.Request
	sent.Header = (*redact.Set)(nil).Header(r.Header, nil)
	body := []byte(erase(string(r.Body)))
	return &runs.SentRequest{
		Method: r.Method, URL: erase(r.URL), Header: bounded(client.Header(sent), erase),
		Body: body[:min(len(body), shownRequest)], Cut: len(body) > shownRequest,
	}
}

// shownAnswer returns the header of an answer, without what the endpoint wants hidden and the secrets that the request held.
func (r *outgoing) shownAnswer(t *Target, answer egress.Response) runs.Header {
	mask := secrets.NewMask(r.values...)
	return bounded(t.Redact.Header(maskedHeader(mask, answer.Header), budget.New(nil)), mask.Text)
}

// bounded returns a header as far as it is shown: the first of its fields by name, and the begin of long values.
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

// printable returns the beginning of a text of a target, at most so many bytes, on one line and without characters that act on a screen.
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
