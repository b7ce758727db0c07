package web

import (
	"errors"
	"strconv"
	"time"

	"rubato/internal/notation"
)

// parseLength parses a duration and returns milliseconds, the unit of the API. A number without a
// unit is seconds.
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

// length reads a field with a length of time, and returns milliseconds.
func (v *pageRequest) length(name string) (int64, error) {
	d, err := parseLength(v.value(name))
	if err != nil {
		return 0, badField(name, err.Error())
	}
	return d, nil
}

// lengthField writes milliseconds for a field, as parseLength reads them.
func lengthField(ms int64) string {
	switch {
	case ms == 0:
		return ""
	case ms%1000 != 0:
		return strconv.FormatInt(ms, 10) + "ms"
	}
	for _, unit := range []struct {
		ms   int64
		name string
	}{{86_400_000, "d"}, {3_600_000, "h"}, {60_000, "m"}} {
		if ms%unit.ms == 0 {
			return strconv.FormatInt(ms/unit.ms, 10) + unit.name
		}
	}
	return strconv.FormatInt(ms/1000, 10) + "s"
}
