// Package jsonpath reads JSON that strangers sent and finds places in it by JSONPath (RFC 9535), both in bounded time and memory. It
// is pure.
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
	// MaxDepth is how deep a document may be nested. People who write JSON come to about ten.
	MaxDepth = 64
	// MaxValues is how many values a document may hold. A value costs up to a hundred bytes of memory, however short it is on the wire.
	MaxValues = 100_000
)

var (
	errDepth  = fmt.Errorf("it is nested more than %d deep", MaxDepth)
	errValues = fmt.Errorf("it holds more than %d values", MaxValues)
	errMore   = errors.New("something follows the document")
)

// Document is a JSON text that was read. It is not safe for concurrent use.
type Document struct {
	root  any        // as encoding/json reads it, numbers as json.Number
	found []location // memory for the places that one path names
}

// byteSteps is how many bytes of a text are read for one step of a budget.
const byteSteps = 8

// Read reads one JSON document. Of members with the same name the last one counts. The error is that of the budget, or says in words what is
// wrong with the text, and repeats none of it.
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

// explain words an error of the decoder without the text that it met.
func explain(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("it is no JSON at byte %d", syntax.Offset)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	return errors.New("it is no JSON: it ends too early")
}

// measure refuses a text that would be too large once it is read, before it takes any memory.
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

// Bytes returns the document as JSON text: members by name, without spaces.
func (d *Document) Bytes() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(d.root); err != nil {
		return nil, fmt.Errorf("encoding a document: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Plain returns the document in values that know no JSON: nil, bool, int64, float64, string, []any and map[string]any. A number is an
// int64 where it is whole and fits, else the nearest float64.
func (d *Document) Plain() any { return plain(d.root) }

func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		return Number(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case map[string]any:
		members := make(map[string]any, len(v))
		for name := range v {
			members[name] = plain(v[name])
		}
		return members
	default:
		return value
	}
}
