// Package jsonpath decodes untrusted JSON and searches it by JSONPath (RFC 9535), both in bounded
// time and memory. It is pure.
package jsonpath

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"rubato/internal/budget"
)

const (
	// MaxDepth is the maximum nesting depth of a document. Documents in practice have about ten
	// levels.
	MaxDepth = 64
	// MaxValues is the maximum number of values of a document. A value takes up to a hundred bytes
	// of memory, however short its text is.
	MaxValues = 100_000
)

var (
	errDepth  = fmt.Errorf("it is nested more than %d deep", MaxDepth)
	errValues = fmt.Errorf("it holds more than %d values", MaxValues)
	errMore   = errors.New("something follows the document")
)

// Document is a decoded JSON text. It is not safe for concurrent use.
type Document struct {
	root  any        // decoded by encoding/json, numbers as json.Number
	found []location // reused buffer for the locations of a path
}

// byteSteps is the number of bytes that are decoded per budget step.
const byteSteps = 8

// Read decodes one JSON document. If member names repeat, the last one wins. The error is that of
// the budget, or describes the syntax error without quoting the text.
func Read(text []byte, b *budget.Budget) (*Document, error) {
	if err := b.Spend(1 + len(text)/byteSteps); err != nil {
		return nil, err
	}
	if err := checkSize(text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var doc Document
	if err := d.Decode(&doc.root); err != nil {
		return nil, explain(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errMore
	}
	return &doc, nil
}

// explain describes a decoder error without quoting the text.
func explain(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("it is no JSON at byte %d", syntax.Offset)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	return errors.New("it is no JSON: it ends too early")
}

// checkSize rejects a text that would decode to a too large document, before memory is allocated.
func checkSize(text []byte) error {
	depth, values, quoted := 0, 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
			values++
		case c == ']' || c == '}':
			depth--
		case c == ',':
			values++
		}
		if depth > MaxDepth {
			return errDepth
		}
		if values > MaxValues {
			return errValues
		}
	}
	return nil
}

// Bytes encodes the document: members sorted by name, without spaces.
func (d *Document) Bytes() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(d.root); err != nil {
		return nil, fmt.Errorf("encoding a document: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Root returns the decoded value: nil, bool, string, json.Number, []any and map[string]any. It
// belongs to the document.
func (d *Document) Root() any { return d.root }

// Plain returns the document as plain Go values: nil, bool, int64, float64, string, []any and
// map[string]any. A number is an int64 if it is whole and fits, else the nearest float64.
func (d *Document) Plain() any { return Plain(d.root) }

// Plain is [Document.Plain] for a decoded value, which is copied.
func Plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		return Number(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = Plain(v[i])
		}
		return list
	case map[string]any:
		members := make(map[string]any, len(v))
		for name := range v {
			members[name] = Plain(v[name])
		}
		return members
	default:
		return value
	}
}
