package untrusted

import "encoding/json"

// Storable returns a text as JSON of at most limit bytes that Postgres's jsonb accepts. A text that
// is valid JSON keeps its structure, with numbers as float64 and without invisible characters. Any
// other text becomes a truncated JSON string. limit must leave room for the quotes.
//
// Valid JSON alone is not enough, because jsonb rejects numbers such as 1e200000, the character
// U+0000, and lone surrogates.
func Storable(text string, limit int) json.RawMessage {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err == nil { // fails for numbers beyond float64, replaces lone surrogates
		if kept := encode(visibleValue(value)); kept != "" && len(kept) <= limit {
			return json.RawMessage(kept)
		}
	}
	text = Visible(text)
	for most := limit; ; {
		text = truncate(text, most)
		quoted := encode(text)
		over := len(quoted) - limit
		if over <= 0 || text == "" {
			return json.RawMessage(quoted)
		}
		most = len(text) - (over+1)/2 // a quote takes two bytes of JSON
	}
}

// visibleValue returns a decoded value without invisible characters in its texts and names.
func visibleValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, inner := range v {
			clean[Visible(name)] = visibleValue(inner)
		}
		return clean
	case []any:
		for i, inner := range v {
			v[i] = visibleValue(inner)
		}
	case string:
		return Visible(v)
	}
	return value
}
