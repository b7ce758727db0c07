package web

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// parseLength reads a length of time as people write it, such as 90, 90s, 1m30s, 1 h 30 min, 500ms or 2d, and returns milliseconds. A
// number without a unit is seconds.
func parseLength(text string) (int64, error) {
	wrong := errors.New("must be a length of time, such as 30s, 5m, 1h30m or 2d")
	rest := strings.ToLower(strings.ReplaceAll(text, " ", ""))
	if rest == "" {
		return 0, wrong
	}
	var total float64
	for rest != "" {
		digits := strings.IndexFunc(rest, func(c rune) bool { return (c < '0' || c > '9') && c != '.' })
		if digits < 0 {
			digits = len(rest)
		}
		number, err := strconv.ParseFloat(rest[:digits], 64)
		if err != nil {
			return 0, wrong
		}
		rest = rest[digits:]
		end := strings.IndexFunc(rest, func(c rune) bool { return c >= '0' && c <= '9' })
		if end < 0 {
			end = len(rest)
		}
		unit, known := lengthUnits()[rest[:end]]
		if !known {
			return 0, wrong
		}
		total += number * unit
		rest = rest[end:]
	}
	if total > math.MaxInt64/4 {
		return 0, wrong
	}
	return int64(math.Round(total)), nil
}

func lengthUnits() map[string]float64 {
	return map[string]float64{
		"": 1000, "ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
		"d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
	}
}
