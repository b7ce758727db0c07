package web

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"rubato/client"
)

// tryTime bounds a test request: the API's limit of 45 s, and some time to read the response.
const tryTime = 55 * time.Second

// sendsOnce gives the request the time that one needs that waits for a target.
func (v *pageRequest) sendsOnce() {
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(tryTime)) // Connections without deadlines need no lifting.
	v.r = v.r.WithContext(v.sent.Context())                                       // The API ends it.
}

// try sends the request that was typed once, and stores nothing.
func (v *pageRequest) try() error {
	f := v.typed()
	document := f.document()
	var result client.TestResult
	if len(f.errors) == 0 {
		err := v.sendDraft(f, document, &result)
		if err == nil {
			return v.part(testPart(result))
		}
		if err := f.take(err); err != nil {
			return err
		}
	}
	return v.part(refusedTry(f))
}

// sendDraft sends the request of the form. Masked values are replaced by the stored ones.
func (v *pageRequest) sendDraft(f form, document map[string]any, result *client.TestResult) error {
	v.sendsOnce()
	if f.id != "" {
		var stored client.Endpoint
		if err := v.get(endpointAPI(f.id, ""), nil, &stored); err != nil {
			return err
		}
		before := newForm(fieldsOf(stored))
		if len(difference(before.document(), document)) == 0 {
			return v.post(endpointAPI(f.id, "/test"), "", nil, result)
		}
	}
	return v.post("/v1/test", "", document, result)
}

// exchange converts the outcome of a test to a run, so that the same templates show it.
func exchange(t client.TestResult) client.Run {
	return client.Run{
		Phases:         &t.Phases,
		DurationMs:     &t.DurationMs,
		Body:           t.Body,
		BodyBase64:     t.BodyBase64,
		BodyTail:       t.BodyTail,
		BodyTailBase64: t.BodyTailBase64,
		StatusCode:     t.StatusCode,
		ContentType:    t.ContentType,
		ResponseBytes:  &t.ResponseBytes,
		Truncated:      &t.Truncated,
	}
}

// headText writes a request line or status line and the headers below it.
func headText(first string, headers map[string][]string) string {
	var b strings.Builder
	b.WriteString(first)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		for _, value := range headers[name] {
			b.WriteString("\n" + name + ": " + value)
		}
	}
	return b.String()
}

// sentText writes the request as it was sent.
func sentText(r client.SentRequest) string {
	all := headText(r.Method+" "+r.URL, r.Headers)
	if body := bodyText(client.Run{Body: r.Body, BodyBase64: r.BodyBase64}); body != "" {
		all += "\n\n" + body
	}
	return all
}

// answeredText writes the head of an answer.
func answeredText(t client.TestResult) string {
	if t.Headers == nil {
		return statusText(t.StatusCode)
	}
	return headText(statusText(t.StatusCode), *t.Headers)
}
