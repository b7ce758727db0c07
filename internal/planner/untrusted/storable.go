package untrusted

import "encoding/json"

// Storable returns a text as JSON of at most limit bytes that every database keeps, Postgres's jsonb among them: what the text says where
// it is JSON, with numbers as float64 and nothing unseen in texts and names, and otherwise the text itself as a JSON string, cut. Valid
// JSON alone is not enough: jsonb refuses numbers that no machine holds, such as 1e200000, the character U+0000 and halves of a surrogate
// pair, however they are spelled. limit must leave room for the quotes.
func Storable(text string, limit int) json.RawMessage {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err == nil { // It fails for numbers beyond float64, and mends halves of pairs.
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
		most = len(text) - (over+1)/2 // A quote is two bytes of JSON.
	}
}

// seen returns a decoded value with nothing unseen in its texts and names.
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
