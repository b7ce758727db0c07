package chains

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxDepth bounds the nesting of values, because Postgres refuses a few thousand levels
	// (SQLSTATE 54001). Answers of targets and requests to the API have at most 64.
	maxDepth = 100
	// maxNumber bounds a number without its exponent, in bytes, and maxExponent its exponent. Both
	// are far below the bounds of Postgres (131072 digits before the decimal point, 16383 after it),
	// because jsonb writes out all digits: the 7 bytes 1e99999 become 100 kB.
	maxNumber   = 400
	maxExponent = 308
)

// encodeStorable encodes a decoded value as JSON that the database stores as jsonb. It keeps the
// value but for two things that jsonb cannot hold: U+0000 in texts and names becomes U+FFFD, as a
// lone surrogate did when the value was decoded, and a number beyond the range of a double becomes
// its text. The error says that the value is nested too deep.
func encodeStorable(value any) (json.RawMessage, error) {
	clean, err := storable(value, 0)
	if err != nil {
		return nil, err
	}
	return json.Marshal(clean)
}

func storable(value any, depth int) (clean any, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("JSON of at most %d nested levels", maxDepth)
	}
	switch v := value.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) { // Two names can become one.
			if object[storableText(name)], err = storable(v[name], depth+1); err != nil {
				return nil, err
			}
		}
		return object, nil
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			if list[i], err = storable(inner, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case string:
		return storableText(v), nil
	case json.Number:
		if !storableNumber(string(v)) {
			return string(v), nil
		}
	}
	return value, nil
}

func storableText(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

// storableNumber reports whether the database stores a JSON number in about as many bytes as it
// has.
func storableNumber(text string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(mantissa) > maxNumber {
		return false
	}
	if exponent != "" {
		if e, err := strconv.Atoi(exponent); err != nil || max(e, -e) > maxExponent {
			return false
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsInf(f, 0)
}
