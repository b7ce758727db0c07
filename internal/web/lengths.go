package web

import (
	"errors"
	"time"

	"rubato/internal/notation"
)

// parseLength reads a duration of a form and returns milliseconds, because the API counts in them. A number without a unit is seconds.
func parseLength(text string) (int64, error) {
	d, err := notation.ParseDuration(text, "s")
	switch {
	case err != nil:
		return 0, err
	case d < 0:
		return 0, errors.New("must not be negative")
	case d%time.Millisecond != 0:
		return 0, errors.New("must be whole milliseconds")
	}
	return d.Milliseconds(), nil
}
