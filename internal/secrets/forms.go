package secrets

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"html"
	"net/url"
	"slices"
	"strings"
)

// formsOf returns the forms of values that are long enough, the longest first.
func formsOf(shortest int, values []string) []string {
	var list []string
	for _, value := range values {
		if len(value) < shortest {
			continue
		}
		for _, form := range forms(value) {
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

// encoded returns a value in every kind of base64.
func encoded(value string) []string {
	return []string{
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawStdEncoding.EncodeToString([]byte(value)),
		base64.URLEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
	}
}

// plainJSON returns a value in a JSON string as most write it: with what is markup in HTML as it is.
func plainJSON(value string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // A text cannot fail.
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(out.String(), "\n"), `"`), `"`)
}

// marked returns a value as XML writes it.
func marked(value string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(value)) // A buffer cannot fail.
	return out.String()
}
