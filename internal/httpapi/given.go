package httpapi

import (
	"cmp"
	"time"

	"rubato/internal/endpoints"
)

// text returns an optional text, "" if absent. An explicit empty text becomes a blank, so that the
// domain refuses it.
func text(given *string) string {
	if given == nil {
		return ""
	}
	return cmp.Or(*given, " ")
}

func set[T any](field, given *T) {
	if given != nil {
		*field = *given
	}
}

// setWord is set for a word of an enumeration, which the domain and the contract have each their
// own type for.
func setWord[D, C ~string](field *D, given *C) {
	if given != nil {
		*field = D(*given)
	}
}

func setSpan(field *time.Duration, ms *int64) {
	if ms != nil {
		*field = endpoints.Milliseconds(*ms)
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
