package secrets

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// formsOf returns the encoded forms of the values that have at least the shortest length, longest
// first.
func formsOf(shortest int, values []string) []string {
	var list []string
	for _, value := range values {
		if len(value) < shortest {
			continue
		}
		all := forms(value)
		if len(value) >= minMasked {
			all = append(all, within(value)...)
		}
		for _, form := range all {
			if len(form) >= shortest && !slices.Contains(list, form) {
				list = append(list, form)
			}
		}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return list
}

func forms(value string) []string {
	quoted, _ := json.Marshal(value) // A text cannot fail.
	escaped := url.QueryEscape(value)
	return append(encoded(value),
		value, strings.TrimSpace(value), string(quoted[1:len(quoted)-1]), plainJSON(value), marked(value), html.EscapeString(value),
		escaped, strings.ReplaceAll(escaped, "+", "%20"), url.PathEscape(value))
}

// encoded returns a value in every variant of base64.
func encoded(value string) []string {
	return []string{
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawStdEncoding.EncodeToString([]byte(value)),
		base64.URLEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
	}
}

// longValue is the size in bytes from which fewer forms of a value are searched inside base64,
// because each form takes eight times its memory.
const longValue = 4 << 10

// within returns the base64 substrings of a longer text that contains a value, also in its JSON,
// URL or markup form. Base64 encodes groups of three bytes, so there is one substring per offset of
// the value. Each holds the characters that depend on the value alone, at least ten.
func within(value string) []string {
	forms := inside(value)
	list := make([]string, 0, 6*len(forms))
	for _, form := range forms {
		for before := range 3 {
			text := append(make([]byte, before), form...)
			from, to := (8*before+5)/6, 8*len(text)/6
			list = append(list, base64.RawStdEncoding.EncodeToString(text)[from:to], base64.RawURLEncoding.EncodeToString(text)[from:to])
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// inside returns the forms of a value in a text that is base64-encoded as a whole.
func inside(value string) []string {
	plain := plainJSON(value)
	list := []string{value, plain}
	if len(value) <= longValue {
		quoted, _ := json.Marshal(value) // A text cannot fail.
		escaped := url.QueryEscape(value)
		spaced := strings.ReplaceAll(escaped, "+", "%20")
		list = append(list,
			strings.TrimSpace(value), string(quoted[1:len(quoted)-1]), strings.ReplaceAll(plain, "/", `\/`), marked(value), html.EscapeString(value),
			escaped, spaced, url.PathEscape(value), lowerPercent(escaped), lowerPercent(spaced), lowerPercent(url.PathEscape(value)))
	}
	list = slices.DeleteFunc(list, func(form string) bool { return len(form) < minMasked })
	slices.Sort(list)
	return slices.Compact(list)
}

var percent = regexp.MustCompile("%[0-9A-F]{2}")

// lowerPercent returns a text with lower-case digits in its percent-encoding.
func lowerPercent(text string) string { return percent.ReplaceAllStringFunc(text, strings.ToLower) }

// plainJSON returns the JSON string form of a value without HTML escaping, as most encoders write
// it.
func plainJSON(value string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // A text cannot fail.
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(out.String(), "\n"), `"`), `"`)
}

// marked returns the XML form of a value.
func marked(value string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(value)) // A buffer cannot fail.
	return out.String()
}
