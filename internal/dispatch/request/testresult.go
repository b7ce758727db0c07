package request

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
	// resultHead limits the head of a response body.
	resultHead = 100 << 10 // bytes
	// resultTail limits the tail of a response body.
	resultTail = 16 << 10 // bytes
	// resultRequest limits the request body.
	resultRequest = 16 << 10 // bytes
	// resultFields limits the number of header values.
	resultFields = 100
	// resultValue limits each header value.
	resultValue = 256 // bytes
)

// shorten returns an outcome with its body and tail cut to the limits of a test result.
func shorten(o runs.Outcome) runs.Outcome {
	if len(o.Body) > resultHead {
		o.Body, o.Truncated = o.Body[:resultHead], true
	}
	if extra := len(o.Tail) - resultTail; extra > 0 {
		o.Tail = o.Tail[extra:]
	}
	return o
}

// redacted returns the sent request without secrets. It hides header fields that look like
// credentials by name, and every occurrence of a secret, even of a short one.
func (r *Outgoing) redacted(client *egress.Client) *runs.SentRequest {
	erase := secrets.NewEraser(append(slices.Clone(r.values), r.token)...).Replace
	sent := r.Request
	sent.Header = (*redact.Set)(nil).Header(r.Header, nil)
	body := []byte(erase(string(r.Body)))
	return &runs.SentRequest{
		Method: r.Method,
		URL:    erase(r.URL),
		Header: bounded(client.Header(sent), erase),
		Body:   body[:min(len(body), resultRequest)],
		Cut:    len(body) > resultRequest,
	}
}

// redactedHeader returns the header of an answer. The endpoint's redaction rules and the secrets of
// the request are applied.
func (r *Outgoing) redactedHeader(t *Target, answer egress.Response) runs.Header {
	mask := secrets.NewMask(r.values...)
	return bounded(t.Redact.Header(maskedHeader(mask, answer.Header), budget.New(nil)), mask.Text)
}

// bounded returns the first resultFields values of a header, in the order of field names. Long
// values are cut.
func bounded(header http.Header, hide func(string) string) runs.Header {
	texts := make(runs.Header, min(len(header), resultFields))
	left := resultFields
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if left == 0 {
				return texts
			}
			left--
			canonical := http.CanonicalHeaderKey(name)
			texts[canonical] = append(texts[canonical], printable(hide(value), resultValue))
		}
	}
	return texts
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
