package dispatch

import (
	"net/http"
	"slices"
	"strings"
	"unicode"

	"rubato/internal/egress"
	"rubato/internal/runs"
)

// maxValidator bounds an ETag or a Last-Modified in bytes. Longer ones are not kept: they would be sent with every request.
const maxValidator = 1024

// ask makes a request conditional, where the target is to say whether something changed and an earlier answer is known. Whoever a redirect
// leads to elsewhere is not asked: that answer was not theirs.
func (t *Target) ask(r *egress.Request) {
	if !t.asked() {
		return
	}
	r.Header = owned(r.Header, 2)
	for name, value := range map[string]string{"If-None-Match": t.Asks.ETag, "If-Modified-Since": t.Asks.LastModified} {
		if value != "" {
			r.Header[name] = []string{value}
			r.Credentials = append(slices.Clip(r.Credentials), name)
		}
	}
}

// asked reports whether requests name an earlier answer.
func (t *Target) asked() bool { return t.Asks != nil && t.Asks.ETag+t.Asks.LastModified != "" }

// unchanged reports whether the answer says that nothing changed since the one that the request named.
func (t *Target) unchanged(answer egress.Response) bool {
	return t.asked() && answer.StatusCode == http.StatusNotModified
}

// validators returns what the next request can name; nil where that is what this one named. Only a whole answer that was a success is worth
// naming: a 304 stands for its like.
func (t *Target) validators(o runs.Outcome, x exchange) *runs.Validators {
	answer := x.answer
	if t.Asks == nil || o.Status != runs.Succeeded || answer.StatusCode != http.StatusOK || answer.Elsewhere {
		return nil
	}
	v := runs.Validators{
		ETag:         t.validator(x, "Etag"),
		LastModified: t.validator(x, "Last-Modified"),
		Request:      t.Asks.Request,
	}
	if v == *t.Asks {
		return nil
	}
	return &v
}

// validator returns the value of a header that can be sent back, and of which nothing is to be hidden, else nothing.
func (t *Target) validator(x exchange, name string) string {
	value := x.answer.Header.Get(name)
	if t.Redact.Value(x.answer.Header, name, x.budget) != value {
		return ""
	}
	if len(value) > maxValidator || egress.CheckHeader("If-None-Match", value) != nil || strings.ContainsFunc(value, func(r rune) bool { return r > unicode.MaxASCII }) {
		return ""
	}
	return value
}
