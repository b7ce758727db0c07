package template_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/template"
)

// FuzzTemplate: whatever text is parsed and whatever values are filled in, nothing panics, nothing
// is longer than it may be, and no value leaves the place at which it stands.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		"{{run.id}}", `{"a":"{{endpoint.name}}","b":{{endpoint.name|json}},"c":{{last.statusCode|default 0}}}`,
		"https://a.example/{{endpoint.name}}/x?y={{endpoint.key}}", `Bearer {{secret "x"}}`, `a={{endpoint.labels["l"]|urlquery|upper}}`,
		`{{run.scheduledFor|date "%F %T %%" "Europe/Berlin"|base64}}`, `{{"{{"}}}}`, `<a>{{endpoint.name}}</a>`, "{{", `{{'\`, "{{run.id|}}",
	} {
		for field := range 6 {
			f.Add(text, "a\"b\r\n<&>/..?#%2e\\", field)
		}
	}
	f.Fuzz(func(t *testing.T, text, evil string, number int) {
		field := template.Field(((number % 6) + 6) % 6)
		parsed, faults := template.Parse(text, template.Options{Field: field, Labels: map[string]string{"l": evil}})
		for _, fault := range faults {
			if fault.Line < 1 || fault.Column < 1 || fault.Message == "" {
				t.Fatalf("%q: a fault without a place: %v", text, fault)
			}
		}
		if parsed == nil {
			if template.Is(text) == (len(faults) == 0) {
				t.Fatalf("%q: neither a template nor a fault", text)
			}
			return
		}
		limit := len(text) + 4*len(evil) + 1000
		got, err := parsed.Render(evilValues(evil), limit)
		if err != nil {
			return
		}
		if len(got) > limit {
			t.Fatalf("%q: %d bytes, more than %d", text, len(got), limit)
		}
		holds(t, field, text, got)
	})
}

func evilValues(evil string) *template.Values {
	return &template.Values{
		Run:      template.Run{ID: evil, Attempt: 1, ScheduledFor: time.UnixMilli(1_795_303_805_007)},
		Endpoint: template.Endpoint{ID: evil, Name: evil, Key: evil, Labels: map[string]string{"l": evil}},
		Last:     template.Last{Status: evil},
		Secrets:  always(evil),
	}
}

// always is a vault in which every secret has one value.
type always string

func (a always) Secret(string) (string, error) { return string(a), nil }

// holds checks the invariants of a rendering.
func holds(t *testing.T, field template.Field, text, got string) {
	t.Helper()
	switch field {
	case template.URL:
		literal, _, _ := strings.Cut(text, template.Open)
		plain, err := url.Parse(literal)
		if err != nil {
			return
		}
		filled, err := url.Parse(got)
		if err != nil {
			return // Literals of the user's; the guard refuses it.
		}
		if plain.Host != filled.Host || plain.Scheme != filled.Scheme || plain.User.String() != filled.User.String() {
			t.Fatalf("%q became %q", text, got)
		}
	case template.JSON:
		if !json.Valid([]byte(got)) {
			t.Fatalf("%q became %q, which is no JSON", text, got)
		}
	case template.Header:
		literal := strings.Count(text, "\n") + strings.Count(text, "\r") + strings.Count(text, "\x00")
		if strings.Count(got, "\n")+strings.Count(got, "\r")+strings.Count(got, "\x00") > literal {
			t.Fatalf("%q became %q", text, got)
		}
	case template.Text, template.Form, template.XML:
	}
}

// FuzzValues holds values in the two fields that readers take apart: the reader gets the value
// back, and as many parts as before.
func FuzzValues(f *testing.F) {
	f.Add("a&b=c")
	f.Add("]]> <!-- \xff")
	f.Fuzz(func(t *testing.T, evil string) {
		form, faults := template.Parse("a={{endpoint.name}}&b={{endpoint.name|urlquery}}", template.Options{Field: template.Form})
		require.Empty(t, faults)
		got, err := form.Render(evilValues(evil), 1<<20)
		require.NoError(t, err)
		query, err := url.ParseQuery(got)
		require.NoError(t, err)
		require.Equal(t, url.Values{"a": {evil}, "b": {evil}}, query)

		markup, faults := template.Parse(`<a b="{{endpoint.name}}">{{endpoint.name}}</a>`, template.Options{Field: template.XML})
		require.Empty(t, faults)
		got, err = markup.Render(evilValues(evil), 1<<20)
		require.NoError(t, err)
		require.Equal(t, 1, elements(t, got), got)
	})
}

// elements counts the elements of a document.
func elements(t *testing.T, document string) int {
	t.Helper()
	count := 0
	for decoder := xml.NewDecoder(bytes.NewReader([]byte(document))); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		require.NoError(t, err, document)
		if _, is := token.(xml.StartElement); is {
			count++
		}
	}
}
