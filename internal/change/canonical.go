package change

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"rubato/internal/budget"
	"rubato/internal/jsonpath"
)

// omitted replaces an ignored value. It is not compared, as if its holder did not have it.
type omitted struct{}

// writer writes canonical forms: members sorted by name, numbers by value, and texts with their
// length in front, so that no two documents share a form.
type writer struct {
	out    []byte
	budget *budget.Budget
	err    error
}

// value writes a value. After an error the output must not be used.
func (w *writer) value(value any) {
	if w.err != nil {
		return
	}
	if w.err = w.budget.Spend(1); w.err != nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		w.members(v)
	case []any:
		w.out = append(w.out, '[')
		for _, element := range v {
			w.value(element)
		}
		w.out = append(w.out, ']')
	case string:
		w.text(v)
	case json.Number:
		w.out = append(append(w.out, jsonpath.Canonical(v)...), ',')
	case bool:
		w.out = append(strconv.AppendBool(w.out, v), ',')
	case omitted:
	default:
		w.out = append(w.out, "null,"...)
	}
}

// members writes an object.
func (w *writer) members(object map[string]any) {
	if w.err = w.budget.Spend(len(object)); w.err != nil {
		return
	}
	w.out = append(w.out, '{')
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, ignored := object[name].(omitted); ignored {
			continue
		}
		w.text(name)
		w.value(object[name])
	}
	w.out = append(w.out, '}')
}

// text writes a text behind its length.
func (w *writer) text(text string) {
	w.out = strconv.AppendInt(append(w.out, '"'), int64(len(text)), 10)
	w.out = append(append(w.out, ':'), text...)
}
