package template

import (
	"fmt"
	"slices"
	"strings"
)

// Field is the kind of a text. It determines how values are escaped.
type Field int

// The fields.
const (
	// Text: values are not escaped.
	Text Field = iota
	// URL: values are percent-encoded. Scheme, host, port and fragment must be literal.
	URL
	// Header: values are not escaped; characters that a header must not hold are refused.
	Header
	// JSON: values are escaped inside a string, and encoded as a JSON value elsewhere; an unknown
	// value is null.
	JSON
	// Form is application/x-www-form-urlencoded: values are percent-encoded.
	Form
	// XML: markup characters become entities.
	XML
)

// Open begins an action. A text without it is no template.
const Open = "{{"

// Bounds of a template, in addition to the one on its output.
const (
	maxActions = 1000     // per text
	maxFilters = 8        // per action
	maxValue   = 64 << 10 // bytes of a value, before and after each filter
	maxErrors  = 10       // reported per text
)

// Options is the context of a text.
type Options struct {
	Field Field
	// Labels are those of the endpoint. An unknown label requires a default.
	Labels map[string]string
	// Chain holds the names that a chain declares; nil: the text is no request of a chain.
	Chain *Names
}

// Template is a parsed text. It is immutable and safe for concurrent use.
type Template struct {
	field Field
	parts []part
	size  int // bytes of its literals

	// guarded means that values stand in the path of a URL.
	guarded bool
}

// part is a literal and the action that follows it; the last part may have none.
type part struct {
	literal string
	action  *action
	within  place
}

// action is one {{...}}.
type action struct {
	at position
	// name is the name of the value in errors.
	name    string
	value   func(*Values) (value, error)
	kind    kind
	filters []filter
	// secret is the referenced secret; empty: none.
	secret string
	// label is the referenced label; empty: none.
	label string
	// last means that the action uses the previous run.
	last bool
	// source is the action as it is written.
	source string
	// chain means that the value is known when the step of a chain starts. defaulted means that a
	// filter replaces a missing one.
	chain, defaulted bool
}

// place is the place of an action in its field.
type place int

const (
	plain    place = iota
	inString       // inside a JSON string
	inPath         // in the path of a URL
	inQuery
)

// Error is a fault of a template, or of a value that is not allowed in its place. Its text contains
// no value.
type Error struct {
	Line, Column int // from 1; columns count characters
	Message      string
	// Err is the cause, if any.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether a text is a template.
func Is(text string) bool { return strings.Contains(text, Open) }

// Secrets returns the names of the referenced secrets, sorted and unique.
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

// UsesLast reports whether the template uses the previous run.
func (t *Template) UsesLast() bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return p.action != nil && p.action.last })
}

// Sole returns the name of the secret if the text is one unfiltered reference to it, else an empty
// string.
func (t *Template) Sole() string {
	if len(t.parts) != 1 || t.parts[0].literal != "" || len(t.parts[0].action.filters) > 0 {
		return ""
	}
	return t.parts[0].action.secret
}

// Sample returns the text with a sample in place of every action.
func (t *Template) Sample(something string) string {
	var out strings.Builder
	for _, p := range t.parts {
		if out.WriteString(p.literal); p.action != nil {
			out.WriteString(something)
		}
	}
	return out.String()
}
