package template

import (
	"fmt"
	"slices"
	"strings"
)

// Field is what a text is, which decides how the values in it are escaped.
type Field int

// The fields.
const (
	Text   Field = iota // values as they are
	URL                 // percent-encoded; scheme, host and port must be literal, and so must a fragment
	Header              // as they are; what no header may hold is refused
	JSON                // in a string escaped for it; elsewhere written as a JSON value, null where there is none
	Form                // application/x-www-form-urlencoded: percent-encoded
	XML                 // with entities for what is markup
)

// Open is what begins an action. A text without it is no template.
const Open = "{{"

// The bounds of a template, beside the one on what it yields.
const (
	maxActions = 1000     // of a text
	maxFilters = 8        // of an action
	maxValue   = 64 << 10 // bytes of a value, before and after each filter
	maxErrors  = 10       // that are told of one text
)

// Options say what a text may speak of.
type Options struct {
	Field Field
	// Labels are those of the endpoint. A label that is not among them needs a default.
	Labels map[string]string
}

// Template is a parsed text. It never changes and is safe for concurrent use.
type Template struct {
	field Field
	parts []part
	size  int // bytes of its literals

	guarded bool // values stand in the path of a URL
}

// part is a literal and the action that follows it; the last one may have none.
type part struct {
	literal string
	action  *action
	within  place
}

// action is one {{...}}.
type action struct {
	at      position
	name    string // as errors show it
	value   func(*Values) (value, error)
	kind    kind
	filters []filter
	secret  string // the secret that it names; empty: none
	label   string // likewise the label
	last    bool   // it speaks of the last run
}

// place is where in its field an action stands.
type place int

const (
	plain    place = iota
	inString       // of JSON
	inPath         // of a URL
	inQuery
)

// Error is a fault of a template, or of a value that cannot stand where it should. Its text shows no value.
type Error struct {
	Line, Column int // from 1; columns count characters
	Message      string
	Err          error // the cause, where there is one
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether a text is a template.
func Is(text string) bool { return strings.Contains(text, Open) }

// Secrets returns the names of the secrets that the template uses, sorted, each once.
func (t *Template) Secrets() []string {
	var names []string
	for _, p := range t.parts {
		if p.action != nil && p.action.secret != "" {
			names = append(names, p.action.secret)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// UsesLast reports whether the template speaks of the run before.
func (t *Template) UsesLast() bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return p.action != nil && p.action.last })
}

// Sole returns the name of the secret of which the text consists, as it is; empty where it is anything else.
func (t *Template) Sole() string {
	if len(t.parts) != 1 || t.parts[0].literal != "" || len(t.parts[0].action.filters) > 0 {
		return ""
	}
	return t.parts[0].action.secret
}

// Sample returns the text with something in place of every action.
func (t *Template) Sample(something string) string {
	var out strings.Builder
	for _, p := range t.parts {
		if out.WriteString(p.literal); p.action != nil {
			out.WriteString(something)
		}
	}
	return out.String()
}
