package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMaskHidesValuesInEveryEncoding(t *testing.T) {
	t.Parallel()
	value := "p\"ss/w\nrd+é=<can & ary>"
	mask := NewMask(value, "short")
	quoted, err := json.Marshal(value)
	require.NoError(t, err)
	var marked bytes.Buffer
	require.NoError(t, xml.EscapeText(&marked, []byte(value)))
	for _, form := range []string{
		value, string(quoted), url.QueryEscape(value), url.PathEscape(value),
		strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), marked.String(), html.EscapeString(value),
		`p\"ss/w\nrd+é=<can & ary>`,
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
	} {
		body := []byte("before " + form + " between " + form + " after short")
		hidden := string(mask.Body(body, false))
		require.NotContains(t, hidden, strings.Trim(form, `"`))
		require.Contains(t, hidden, "before ")
		require.Contains(t, hidden, " after short", "what is short is not searched for")
		require.Equal(t, hidden, mask.Text(string(body)))
	}
}

// TestMaskHidesValuesInsideBase64 has values anywhere inside longer base64 texts, in each form and
// both alphabets, also where the base64 is escaped.
func TestMaskHidesValuesInsideBase64(t *testing.T) {
	t.Parallel()
	forms := map[string]func(string) string{
		"Plain":        func(v string) string { return v },
		"Query":        url.QueryEscape,
		"Path":         url.PathEscape,
		"Spaces":       func(v string) string { return strings.ReplaceAll(url.QueryEscape(v), "+", "%20") },
		"LowerPercent": func(v string) string { return lowerPercent(url.QueryEscape(v)) },
		"JSON":         plainJSON,
		"PHP":          func(v string) string { return strings.ReplaceAll(plainJSON(v), "/", `\/`) },
		"XML":          marked,
		"HTML":         html.EscapeString,
	}
	for _, value := range []string{"p\"ss/w\nrd+é=<can & ary>", "hunter-2", "AKIA~~~???>>>wJalrXUtnFEMI", strings.Repeat("k3y/", 2000)} {
		mask := NewMask(value)
		for name, form := range forms {
			if len(value) > longValue && name != "Plain" && name != "JSON" {
				continue
			}
			for before := range 6 {
				text := []byte(strings.Repeat("u", before) + form(value) + ":rest of it")
				for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
					echo := encoding.EncodeToString(text)
					for _, written := range []string{echo, url.QueryEscape(echo), strings.ReplaceAll(echo, "/", `\/`)} {
						hidden := string(mask.Body([]byte("a: "+written+"; b"), false))
						require.Contains(t, hidden, "[secret]", "%s at %d: %s", name, before, written)
						require.Less(t, len(hidden), 60, "%s at %d: only the text beside it is left: %s", name, before, hidden)
						require.Equal(t, hidden, mask.Text("a: "+written+"; b"))
					}
				}
			}
		}
	}
}

// TestShortTextsInBase64Stay: inside base64 only values of at least ten characters are searched.
func TestShortTextsInBase64Stay(t *testing.T) {
	t.Parallel()
	for _, form := range within("hunter-2") {
		require.GreaterOrEqual(t, len(form), 10)
	}
	echo := base64.StdEncoding.EncodeToString([]byte("user:winter-2"))
	require.Equal(t, echo, NewMask("hunter-2").Text(echo))
}

// TestMaskFindsEscapedForms has escapes of other languages, which differ in the escaped characters
// and in the case of digits.
func TestMaskFindsEscapedForms(t *testing.T) {
	t.Parallel()
	value := "aK3/x9+Zq=&'<é😀 end"
	encoded := base64.StdEncoding.EncodeToString([]byte("user:p\xfb\xff\xfe12"))
	require.Contains(t, encoded, "/")
	require.Contains(t, encoded, "=")
	mask := NewMask(value, "user:p\xfb\xff\xfe12")
	for name, form := range map[string]string{
		"PHP":                `aK3\/x9+Zq=&'<\u00e9\ud83d\ude00 end`,
		"Gson":               `aK3/x9+Zq\u003d\u0026\u0027\u003cé😀 end`,
		"DotNet":             `aK3/x9\u002BZq=\u0026\u0027\u003C\u00E9\uD83D\uDE00 end`,
		"PercentInLowerCase": `aK3%2fx9%2bZq%3d%26%27%3c%c3%a9%f0%9f%98%80+end`,
		"encodeURI":          `aK3/x9+Zq=&'%3C%C3%A9%F0%9F%98%80%20end`,
		"encodeURIComponent": `aK3%2Fx9%2BZq%3D%26'%3C%C3%A9%F0%9F%98%80%20end`,
		"Handlebars":         `aK3/x9+Zq&#x3D;&amp;&#x27;&lt;é😀 end`,
		"HTMLWithNames":      `aK3&sol;x9&plus;Zq&equals;&amp;&apos;&lt;&eacute;&#128512; end`,
		"SpecialsInNumbers":  `aK3&#47;x9&#43;Zq&#61;&#38;&#39;&#60;&#233;&#128512;&#32;end`,
		"Base64InPHP":        strings.ReplaceAll(encoded, "/", `\/`),
		"Base64InAQuery":     strings.ReplaceAll(strings.ReplaceAll(encoded, "/", "%2f"), "=", "%3d"),
	} {
		body := "{\"a\": \"" + form + "\", \"b\": \"C:\\\\x 100% &c " + form + form + "\"}"
		want := "{\"a\": \"[secret]\", \"b\": \"C:\\\\x 100% &c [secret][secret]\"}"
		require.Equal(t, want, string(mask.Body([]byte(body), false)), name)
		require.Equal(t, want, mask.Text(body), name)
	}
}

// TestTextThatResemblesAnEscapeIsKept: text that only resembles an escape is neither hidden nor
// changed.
func TestTextThatResemblesAnEscapeIsKept(t *testing.T) {
	t.Parallel()
	mask := NewMask("a/b/c/d/e/f", "x y z u v w")
	for _, body := range []string{
		`\`, `\u`, `\u12`, `\u12G4`, `\ud83d`, `\ud83dx`, `\ud83d\u0041`, `\x`, `%`, `%2`, `%zz`, `&`, `&;`, `&#;`, `&nothing;`, `+`, `a\/b\/c\/d\/e\/g`, `x+y+z+u+v`,
	} {
		require.Equal(t, body, string(mask.Body([]byte(body), false)))
	}
}

// TestNoPartOfAValueIsLeftAtACut: at any cut of a body, fewer than 8 bytes of the value are left at
// its end.
func TestNoPartOfAValueIsLeftAtACut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-z0-9]{12,40}`).Draw(t, "value")
		before := rapid.StringMatching(`[A-Z ]{0,30}`).Draw(t, "before")
		kept := rapid.IntRange(minMasked, len(value)-1).Draw(t, "kept")

		hidden := string(NewMask(value).Body([]byte(before+value[:kept]), true))

		require.Equal(t, before+masked, hidden)
		require.Equal(t, hidden, NewMask(value).Text(before+value[:kept]))
		require.Equal(t, `"`+hidden+`" and more`, NewMask(value).Text(`"`+before+value[:kept]+`" and more`))
	})
}

// TestNoPartOfAValueIsLeftAtTheStartOfATail: the same holds at the start of a tail.
func TestNoPartOfAValueIsLeftAtTheStartOfATail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-z0-9]{12,40}`).Draw(t, "value")
		after := rapid.StringMatching(`[A-Z ]{0,30}`).Draw(t, "after")
		kept := rapid.IntRange(minMasked, len(value)-1).Draw(t, "kept")

		hidden := string(NewMask(value).Tail([]byte(value[len(value)-kept:] + after + value)))

		require.Equal(t, masked+after+masked, hidden)
	})
}

func TestLongerValuesAreMaskedFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t, "x [secret] y", NewMask("12345678", "1234567890").Text("x 1234567890 y"))
}

func TestNothingIsMaskedWithoutValues(t *testing.T) {
	t.Parallel()
	mask := NewMask("", "1234567")
	require.Nil(t, mask)
	body := []byte("1234567")
	require.Equal(t, body, mask.Body(body, true))
	require.Equal(t, body, mask.Tail(body))
	require.Equal(t, "1234567", mask.Text("1234567"))
}
