package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"rubato/client"
)

// duration writes a length of time in at most two units, such as 1 h 30 min.
func duration(d time.Duration) string {
	if d < 0 {
		return "−" + duration(-d)
	}
	switch {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return "< 1 ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second && d%time.Second != 0:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	d = d.Round(time.Second)
	for _, unit := range []struct {
		size, below time.Duration
		name, next  string
	}{{24 * time.Hour, time.Hour, "d", "h"}, {time.Hour, time.Minute, "h", "min"}, {time.Minute, time.Second, "min", "s"}} {
		if d < unit.size {
			continue
		}
		text := fmt.Sprintf("%d %s", d/unit.size, unit.name)
		if rest := d % unit.size / unit.below; rest > 0 {
			text += fmt.Sprintf(" %d %s", rest, unit.next)
		}
		return text
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// ms is duration of milliseconds.
func ms(n int64) string { return duration(time.Duration(n) * time.Millisecond) }

// fms is duration of milliseconds that may be part of one.
func fms(n float64) string {
	switch {
	case n <= 0:
		return "0 ms"
	case n < 10:
		return strconv.FormatFloat(n, 'f', 1, 64) + " ms"
	default:
		return duration(time.Duration(n * float64(time.Millisecond)).Round(time.Millisecond))
	}
}

// clock formats an instant in UTC, like all times in the console: to the second, with the date
// unless it is today.
func clock(t, now time.Time) string {
	t = t.UTC()
	if t.Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
		return t.Format("15:04:05")
	}
	return t.Format("Mon 2 Jan 15:04:05")
}

// stamp writes an instant in full.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// machine writes an instant for programs, as the datetime of a time element.
func machine(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// relative writes how far an instant is away.
func relative(t, now time.Time) string {
	switch d := t.Sub(now).Round(time.Second); {
	case d > 0:
		return "in " + duration(d)
	case d == 0:
		return "now"
	default:
		return duration(-d) + " ago"
	}
}

// count writes a number with narrow blanks between groups of three digits.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteRune('\u202f')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

// percent writes a part of a whole, or a dash where there is no whole.
func percent(part, whole int64) string {
	switch {
	case whole == 0:
		return "–"
	case part == whole:
		return "100 %"
	default:
		return strconv.FormatFloat(min(99.9, float64(part)*100/float64(whole)), 'f', 1, 64) + " %"
	}
}

// causeWords says what asked for a decision.
func causeWords(cause string) string {
	if words, known := map[string]string{
		"finish": "a run ended", "register": "registered", "edit": "edited", "pause": "paused", "resume": "resumed", "hint": "hinted",
		"reset_failures": "failures reset", "run_now": "run requested", "settle": "lost run settled", "quarantine": "quarantined",
		"cancel": "canceled", "detach": "run started beside others", "result": "run beside others ended", "reject": "noise rejected", "approve": "noise accepted",
	}[cause]; known {
		return words
	}
	return strings.ReplaceAll(cause, "_", " ")
}

// tone is the CSS class of a status. A word always accompanies the color, for accessibility.
func tone(status string) string {
	switch status {
	case "succeeded", "active", "ok":
		return "good"
	case "failed", "timed_out", "silent", "unroutable", "compensation_failed":
		return "bad"
	case "lost":
		return "lost"
	case "running":
		return "live"
	case "paused", "draining", "compensating", "compensated":
		return "held"
	default:
		return "quiet"
	}
}

// statusWords returns the label of a status.
func statusWords(status string) string { return strings.ReplaceAll(status, "_", " ") }

// tempo says how often an endpoint runs by its baseline.
func tempo(e client.Endpoint) string {
	if e.BaselineIntervalMs != nil {
		return "every " + ms(*e.BaselineIntervalMs)
	}
	return text(e.BaselineCron)
}

// text returns a text of the API that may be absent.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// shorten cuts a text where it would be too long for a row.
func shorten(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}
