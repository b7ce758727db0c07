// Package notation parses and formats human-readable values: durations, such as 1d30m, and pairs,
// such as team:shop. The command line, the console, the API and the settings share it, so that a
// text means the same everywhere.
package notation

import (
	"errors"
	"math"
	"strings"
	"time"
)

// ErrSyntax is the error of a text that is no duration.
var ErrSyntax = errors.New("must be a duration, such as 30s, 5m, 1h30m or 2d")

// unit is a unit of package time and how many of it make one unit of a text.
type unit struct {
	name   string
	factor time.Duration
}

// units are the names of units, in lower case. A day has 24 hours.
func units() map[string]unit {
	return map[string]unit{
		"ns": {"ns", 1}, "us": {"us", 1}, "µs": {"us", 1}, "μs": {"us", 1}, "ms": {"ms", 1},
		"s": {"s", 1}, "sec": {"s", 1}, "m": {"m", 1}, "min": {"m", 1}, "h": {"h", 1}, "hour": {"h", 1}, "hours": {"h", 1},
		"d": {"h", 24}, "day": {"h", 24}, "days": {"h", 24},
	}
}

// ParseDuration reads numbers with units, such as 90s, 1m30s, 1 h 30 min, 500ms, 1.5d or -5m.
// Blanks and case do not matter. A lone number gets the unit that bare names, such as "s"; if bare
// is empty, a number without a unit is refused, apart from 0. The error is [ErrSyntax].
func ParseDuration(text, bare string) (time.Duration, error) {
	rest := strings.ToLower(strings.ReplaceAll(text, " ", ""))
	rest, negative := strings.CutPrefix(rest, "-")
	if !negative {
		rest = strings.TrimPrefix(rest, "+")
	}
	if rest == "0" {
		return 0, nil
	}
	if strings.Trim(rest, "0123456789.") == "" {
		rest += bare
	}
	if rest == "" || rest == bare {
		return 0, ErrSyntax
	}
	var total time.Duration
	for rest != "" {
		part, after, err := first(rest)
		if err != nil || part > math.MaxInt64-total {
			return 0, ErrSyntax
		}
		total, rest = total+part, after
	}
	if negative {
		total = -total
	}
	return total, nil
}

// first reads the number and the unit that a text begins with, and returns what follows them.
func first(text string) (d time.Duration, rest string, err error) {
	number := text[:len(text)-len(strings.TrimLeft(text, "0123456789."))]
	rest = text[len(number):]
	end := strings.IndexAny(rest, "0123456789.")
	if end < 0 {
		end = len(rest)
	}
	of, known := units()[rest[:end]]
	if !known {
		return 0, "", ErrSyntax
	}
	d, err = time.ParseDuration(number + of.name)
	if err != nil || d > math.MaxInt64/of.factor {
		return 0, "", ErrSyntax
	}
	return time.Duration(d.Nanoseconds() * int64(of.factor)), rest[end:], nil
}
