// Package errs defines the error type that crosses package borders: a code that callers branch on,
// a message that is safe to show to a user, the invalid fields, and the cause, which is for logs
// only.
//
// An error that is not an [Error] has the code [Internal]. Its text is not sent to users, because
// it may contain secrets.
package errs

import (
	"errors"
	"strings"
)

// Code is the class of an error. It decides the HTTP status of an answer and the exit code of the
// command line.
type Code string

// The codes. Every error that a user may cause has one of the first seven.
const (
	Malformed    Code = "malformed"    // cannot be parsed: syntax, types, unknown fields (400)
	Invalid      Code = "invalid"      // parsed, but breaks a rule (422)
	NotFound     Code = "not_found"    // does not exist for this caller (404)
	Conflict     Code = "conflict"     // the state of the object does not allow it (409)
	Precondition Code = "precondition" // If-Match named another version (412)
	Unauthorized Code = "unauthorized" // no valid key (401)
	Forbidden    Code = "forbidden"    // the key may not do this (403)
	Unavailable  Code = "unavailable"  // the database is unavailable; try again (503)
	Internal     Code = "internal"     // a server error (500)

	// Exhausted: as many as may be are there already; the same request works later (429).
	Exhausted Code = "exhausted"

	// Unreadable: the stored configuration cannot be decoded, so no retry helps (500).
	Unreadable Code = "stored_configuration_unreadable"
)

// Field is an invalid field of an input: its JSON path, a stable code, and the valid form.
type Field struct {
	Field   string `json:"field"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error is an error with a class and a message for its user. Err is the cause; it is never shown to
// users.
type Error struct {
	Code    Code    // class; required
	Reason  string  // stable code for programs, such as "endpoint_archived"; empty means string(Code)
	Message string  // the failed operation, its object, and the remedy; safe to show
	Fields  []Field // every invalid field, in the order of the input; only with Malformed and Invalid
	Err     error   // the cause, for logs
}

// New returns an error of the class code with a message that is safe to show.
func New(code Code, reason, message string) *Error {
	return &Error{
		Code:    code,
		Reason:  reason,
		Message: message,
	}
}

// Wrap returns an error of the class code that hides cause behind a message that is safe to show.
func Wrap(cause error, code Code, message string) *Error {
	return &Error{
		Code:    code,
		Message: message,
		Err:     cause,
	}
}

// InvalidFields returns an [Invalid] error that names every invalid field, or nil without any.
func InvalidFields(fields []Field) error {
	if len(fields) == 0 {
		return nil
	}
	return &Error{
		Code:    Invalid,
		Reason:  "invalid_fields",
		Message: "the input breaks rules; see errors",
		Fields:  fields,
	}
}

// Error returns the message, the invalid fields and the cause, for logs.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for _, f := range e.Fields {
		b.WriteString("; " + f.Field + ": " + f.Message)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the class of err: that of the first [Error] in its tree, else [Internal].
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// FieldsOf returns the invalid fields of err, if any.
func FieldsOf(err error) []Field {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Fields
	}
	return nil
}
