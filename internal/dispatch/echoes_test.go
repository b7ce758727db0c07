package dispatch_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
)

// echoing answers with what makes of the value of a header, in its body and in a header.
func echoing(t *testing.T, name string, of func(value string) string) *egresstest.Target {
	t.Helper()
	return egresstest.Start(t, func(c *egresstest.Conn) {
		for r, ok := c.Next(); ok; r, ok = c.Next() {
			echo := of(r.Header.Get(name))
			c.Write(fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Echo: %s\r\nContent-Type: text/%s\r\nContent-Length: %d\r\n\r\n%s", echo, echo, len(echo), echo))
		}
	})
}

// echoForms are the forms in which targets echo a request. Each takes a value of 20 bytes or more.
func echoForms() map[string]func(string) string {
	encode := func(before int, form func(string) string, encoding *base64.Encoding) func(string) string {
		return func(v string) string { return encoding.EncodeToString([]byte("GET ->"[:before] + form(v) + " end")) }
	}
	plain := func(v string) string { return v }
	forms := map[string]func(string) string{
		"Plain": plain, "JSON": func(v string) string { return `{"a":"` + strings.ReplaceAll(v, "/", `\/`) + `"}` }, "Query": url.QueryEscape,
		"Base64": func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) },
		"EscapedBase64": func(v string) string {
			return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("?" + v + " end")))
		},
	}
	for before := range 3 {
		forms[fmt.Sprintf("InStdBase64At%d", before)] = encode(before, plain, base64.StdEncoding)
		forms[fmt.Sprintf("InURLBase64At%d", before)] = encode(before, plain, base64.RawURLEncoding)
		forms[fmt.Sprintf("EscapedInBase64At%d", before)] = encode(before, url.QueryEscape, base64.StdEncoding)
	}
	return forms
}

// shows reports whether a text contains a part of a value in a form, at least a part that depends
// on the value.
func shows(text, value string, form func(string) string) bool {
	echo := form(value)
	for at := 6; at+8 <= len(echo)-6; at++ { // The edges may depend on the text beside the value.
		if strings.Contains(text, echo[at:at+8]) {
			return true
		}
	}
	return false
}

// TestNoFormOfASecretComesBack has a secret, and the values of headers that look like secrets,
// echoed in each form to a run and to a test.
func TestNoFormOfASecretComesBack(t *testing.T) {
	t.Parallel()
	const value = "wJalrXUt/K7MDENG+bPxRf=CYEXAMPLEKEY"
	b := setup(t)
	s := b.safe(t)
	s.put(t, "token", value)
	type sent struct{ header, text, value string }
	cases := map[string]sent{
		"Secret":        {"X-Plain", `{{secret "token"}}`, value},
		"APIKey":        {"X-Api-Key", value, value},
		"Authorization": {"Authorization", "Bearer " + value, value},
		"Cookie":        {"Cookie", "lang=en; session=" + value, value},
	}
	type echo struct {
		sent

		form func(string) string
		e    *endpoints.Endpoint
	}
	list := map[string]echo{}
	for name, c := range cases {
		for form, of := range echoForms() {
			whole := func(text string) string { // Text before the value would move it.
				_, after, _ := strings.Cut(text, value[:8])
				return of(value[:8] + after)
			}
			e := b.register(t, echoing(t, c.header, whole), func(spec *endpoints.Spec) { spec.Headers = map[string]string{c.header: c.text} })
			list[name+form] = echo{c, of, e}
		}
	}
	p := b.work(t, s.open)
	b.await(t, len(list), "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
	tester := s.tester(t, onLoopback())
	for name, c := range list {
		o := b.only(t, c.e).Outcome
		require.Contains(t, string(o.Body), "[secret]", name)
		require.False(t, shows(string(o.Body)+o.ContentType, c.value, c.form), "%s: %s %s", name, o.Body, o.ContentType)

		result, err := tester.Test(t.Context(), tenant, c.e)
		require.NoError(t, err)
		require.Contains(t, string(result.Outcome.Body), "[secret]", name)
		require.False(t, shows(string(result.Outcome.Body)+fmt.Sprint(result.Answer), c.value, c.form), "%s: %s %v", name, result.Outcome.Body, result.Answer)
	}
}

// TestTextWithoutSecretsIsNotMasked sends other headers, and values that are too short to be
// masked.
func TestTextWithoutSecretsIsNotMasked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for header, value := range map[string]string{"X-Plan": "gold-and-silver", "X-Api-Key": "short77"} {
		e := b.register(t, echoing(t, header, func(v string) string { return v }), func(spec *endpoints.Spec) {
			spec.Headers = map[string]string{header: value}
		})
		p := b.work(t, nil)
		require.Equal(t, value, string(b.only(t, e).Outcome.Body))
		p.stop(t)
	}
}
