package request

import (
	"net/http"
	"slices"
	"strings"
	"unicode"

	"rubato/internal/egress"
	"rubato/internal/runs"
)

// maxValidator bounds an ETag or a Last-Modified in bytes. Longer ones are dropped, because every
// request would carry them.
const maxValidator = 1024

// Ask makes a request conditional if the endpoint is conditional and validators are known. They are
// listed as credentials, so that they do not follow a redirect to another host.
func (t *Target) Ask(r *egress.Request) {
	if !t.conditional() {
		return
	}
	r.Header = owned(r.Header, 2)
	for name, value := range map[string]string{"If-None-Match": t.Validators.ETag, "If-Modified-Since": t.Validators.LastModified} {
		if value != "" {
			r.Header[name] = []string{value}
			r.Credentials = append(slices.Clip(r.Credentials), name)
		}
	}
}

// conditional reports whether requests carry validators.
func (t *Target) conditional() bool {
	return t.Validators != nil && t.Validators.ETag+t.Validators.LastModified != ""
}

// unchanged reports whether the target answered a conditional request by 304 (Not Modified).
func (t *Target) unchanged(answer egress.Response) bool {
	return t.conditional() && answer.StatusCode == http.StatusNotModified
}

// validators returns new validators for the next request; nil if there are none. Only a successful
// 200 without a redirect to another host provides them. A 304 keeps the previous ones.
func (t *Target) validators(o runs.Outcome, x Exchange) *runs.Validators {
	answer := x.Answer
	if t.Validators == nil || o.Status != runs.Succeeded || answer.StatusCode != http.StatusOK || answer.Elsewhere {
		return nil
	}
	v := runs.Validators{
		ETag:         t.validator(x, "Etag"),
		LastModified: t.validator(x, "Last-Modified"),
		Request:      t.Validators.Request,
	}
	if v == *t.Validators {
		return nil
	}
	return &v
}

// validator returns the value of a header, or nothing if it cannot be sent back or redaction would
// change it.
func (t *Target) validator(x Exchange, name string) string {
	value := x.Answer.Header.Get(name)
	if t.Redact.Value(x.Answer.Header, name, x.budget) != value {
		return ""
	}
	if len(value) > maxValidator || egress.CheckHeader("If-None-Match", value) != nil || strings.ContainsFunc(value, func(r rune) bool { return r > unicode.MaxASCII }) {
		return ""
	}
	return value
}
