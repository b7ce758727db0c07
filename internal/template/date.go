package template

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"rubato/internal/schedule"
)

// directives returns the supported directives of date layouts, with their form in the standard
// library.
func directives() map[byte]string {
	return map[byte]string{
		'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'L': ".000", 'j': "002",
		'F': "2006-01-02", 'T': "15:04:05", 'z': "-0700", 'a': "Mon", 'b': "Jan",
	}
}

// layout is a parsed date layout: literals and directives.
type layout struct {
	pieces []piece
	zone   *time.Location
}

type piece struct {
	literal string
	format  string // empty: none
}

// dateFilter formats an instant by a layout, in UTC or another zone.
func dateFilter(args []token, of kind) (filter, error) {
	if of != instant {
		return filter{}, errNoInstant
	}
	l, err := parseLayout(args)
	if err != nil {
		return filter{}, err
	}
	return filter{kind: text, apply: func(v value) (value, error) {
		if v.kind != instant || !v.known { // The value of a default filter, or an unknown one.
			return value{
				kind:  text,
				text:  v.text,
				known: v.known,
			}, nil
		}
		return textOf(l.format(v.at)), nil
	}}, nil
}

// parseLayout parses a layout such as "%Y-%m-%d", and an optional zone.
func parseLayout(args []token) (layout, error) {
	if len(args) == 0 || len(args) > 2 || args[0].kind != tokenString || args[0].text == "" {
		return layout{}, errors.New(`takes a layout, and maybe a zone: date "%Y-%m-%d" "Europe/Berlin"`)
	}
	l := layout{zone: time.UTC}
	if len(args) == 2 {
		zone, err := schedule.LoadZone(args[1].text) // It refuses names with a machine-dependent meaning.
		if err != nil {
			return layout{}, fmt.Errorf("knows no zone %s; use a name of the IANA database such as \"Europe/Berlin\"", quote(args[1].text))
		}
		l.zone = zone
	}
	rest := args[0].text
	for {
		literal, after, found := strings.Cut(rest, "%")
		if !found {
			l.pieces = append(l.pieces, piece{literal: literal})
			return l, nil
		}
		if strings.HasPrefix(after, "%") {
			l.pieces = append(l.pieces, piece{literal: literal + "%"})
			rest = after[1:]
			continue
		}
		if after == "" || directives()[after[0]] == "" {
			return layout{}, fmt.Errorf("knows no such piece of a layout as %s; there are %%Y %%m %%d %%H %%M %%S %%L %%j %%F %%T %%z %%a %%b %%%%", quote("%"+firstOf(after)))
		}
		l.pieces = append(l.pieces, piece{literal, directives()[after[0]]})
		rest = after[1:]
	}
}

func firstOf(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}

// format formats an instant.
func (l layout) format(at time.Time) string {
	at = at.In(l.zone)
	var out strings.Builder
	for _, p := range l.pieces {
		out.WriteString(p.literal)
		if p.format != "" {
			out.WriteString(strings.TrimPrefix(at.Format(p.format), "."))
		}
	}
	return out.String()
}
