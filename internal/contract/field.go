// Package contract describes the fields of an endpoint as api/openapi.yaml does: kinds,
// descriptions, and the extension x-ui with labels, groups and defaults. The flags of the command
// line and the form of the console are made from it.
package contract

import (
	"slices"
	"strings"
	"sync"

	"rubato/api"
)

// Kind is the type of a field's input.
type Kind string

// The kinds. Values are as encoding/json reads them.
const (
	Text      Kind = "text"      // a text of one line
	Link      Kind = "link"      // the address of a page
	Lines     Kind = "lines"     // a text of several lines
	Length    Kind = "length"    // a number of milliseconds
	Number    Kind = "number"    // a whole number
	Choice    Kind = "choice"    // one of Choices
	Switch    Kind = "switch"    // true or false
	Instant   Kind = "instant"   // RFC 3339
	Pairs     Kind = "pairs"     // an object of texts
	List      Kind = "list"      // a list of texts
	Composite Kind = "composite" // an object or a list with a form of its own
)

// Field is a field of an endpoint.
type Field struct {
	// Path is the field's name in the API, such as timeoutMs, or retry.maxAttempts for a member of
	// an object.
	Path string
	Kind Kind
	// Help is the first sentence of the description.
	Help string
	// Label names the field beside its input, and Title where its value is listed. Group is the
	// part of the form that it stands in.
	Label, Title, Group string
	// Row is shared by neighbors that stand side by side. Empty: a row of its own.
	Row string
	// When is the baseline that the field belongs to: interval or cron. Empty: both.
	When string
	// Flag is the name on the command line, without dashes.
	Flag string
	// Alias is a second name on the command line; empty: none.
	Alias string
	// Placeholder is shown in an empty input, as it would be typed. Empty: the default is.
	Placeholder string
	// Form is the form of an item of a List, such as NAME=VALUE.
	Form string
	// Choices are the values of a Choice.
	Choices []string
	// Default is the value of an absent field; nil: none. Initial is the value in a new form.
	Default, Initial any
	// Separator stands between name and value of Pairs.
	Separator string
	// Rows is the height of an input of several lines.
	Rows int
	// OnFailure shows the value beside failures.
	OnFailure bool
	// Verbatim keeps blanks around a text, and Quoted writes values of pairs that no line can hold
	// as JSON.
	Verbatim, Quoted bool
}

// Fields returns the fields of an endpoint in the order of the contract, those of a group behind
// each other. The caller does not change them. A contract that cannot be read is a fault of the
// build, so it panics.
//
//nolint:gochecknoglobals // Computed once from the embedded contract, and never changed.
var Fields = sync.OnceValue(func() []Field { return read(api.OpenAPI()) })

// ReadOnly returns the names of the members of a printed endpoint that its configuration does not
// have, such as createdAt. The caller does not change them.
//
//nolint:gochecknoglobals // As above.
var ReadOnly = sync.OnceValue(func() []string { return readOnly(api.OpenAPI()) })

// Of returns the field with a path; false: there is none.
func Of(path string) (Field, bool) {
	for _, f := range Fields() {
		if f.Path == path {
			return f, true
		}
	}
	return Field{}, false
}

// OnFailure returns the fields that are shown beside failures.
func OnFailure() []Field {
	return slices.DeleteFunc(slices.Clone(Fields()), func(f Field) bool { return !f.OnFailure })
}

// Value returns the value of the field in an endpoint; nil: it is absent.
func (f Field) Value(endpoint map[string]any) any {
	object, member, nested := strings.Cut(f.Path, ".")
	if !nested {
		return endpoint[f.Path]
	}
	inner, _ := endpoint[object].(map[string]any) // Absent: nil, which has no members.
	return inner[member]
}

// Put sets the value of the field in an endpoint.
func (f Field) Put(endpoint map[string]any, value any) {
	object, member, nested := strings.Cut(f.Path, ".")
	if !nested {
		endpoint[f.Path] = value
		return
	}
	inner, is := endpoint[object].(map[string]any)
	if !is {
		inner = map[string]any{}
		endpoint[object] = inner
	}
	inner[member] = value
}
