package change

import (
	"encoding/json"
	"maps"
	"slices"

	"rubato/internal/budget"
	"rubato/internal/jsonpath"
	"rubato/internal/runs"
)

const (
	// maxMembers is the number of members above which an answer is not searched for noise, because
	// their fingerprints are stored until the search ends.
	maxMembers = 256
	// maxLevels and maxPath bound the path of a member. What lies deeper belongs to its holder.
	maxLevels = 24
	maxPath   = 512 // bytes
)

// Member is a member of an answer with a fingerprint of its value. The elements of a list share
// their members, so that $.items[*].id stands for all IDs in their order.
type Member struct {
	Path  string // RFC 9535
	Value uint64
}

// id returns the fingerprint of the path.
func (m Member) id() uint64 { return runs.Digest([]byte(m.Path)) }

// walker collects the members of a document.
type walker struct {
	budget *budget.Budget
	path   []byte
	levels int
	values map[string][]byte // canonical values by path
}

// membersOf returns the members of a document by path; nil if there are too many, or the budget is
// spent. Their fingerprints are keyed like the digest.
func (f Form) membersOf(doc *jsonpath.Document, b *budget.Budget) []Member {
	w := walker{
		budget: b,
		path:   []byte{'$'},
		values: map[string][]byte{},
	}
	if !w.walk(doc.Root()) {
		return nil
	}
	list := make([]Member, 0, len(w.values))
	for _, path := range slices.Sorted(maps.Keys(w.values)) {
		list = append(list, Member{Path: path, Value: f.sum(w.values[path])})
	}
	return list
}

// walk collects the members below a value. It returns false if they are too many.
func (w *walker) walk(value any) bool {
	deep := w.levels == maxLevels || len(w.path) > maxPath
	switch v := value.(type) {
	case omitted:
		return true
	case map[string]any:
		if deep || len(v) == 0 {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !w.below(appendName(w.path, name), v[name]) {
				return false
			}
		}
		return true
	case []any:
		if deep || len(v) == 0 {
			break
		}
		for _, element := range v {
			if !w.below(append(w.path, "[*]"...), element) {
				return false
			}
		}
		return true
	}
	return w.leaf(value)
}

// below walks a value at a longer path.
func (w *walker) below(path []byte, value any) bool {
	if w.budget.Spend(1) != nil {
		return false
	}
	length := len(w.path)
	w.path = path
	w.levels++
	found := w.walk(value)
	w.path = w.path[:length]
	w.levels--
	return found
}

// leaf adds a value to the member at the current path.
func (w *walker) leaf(value any) bool {
	values, known := w.values[string(w.path)]
	if !known && len(w.values) == maxMembers {
		return false
	}
	form := writer{out: values, budget: w.budget}
	form.value(value)
	w.values[string(w.path)] = form.out
	return form.err == nil
}

// appendName appends the selector of a member to a path.
func appendName(path []byte, name string) []byte {
	if isPlain(name) {
		return append(append(path, '.'), name...)
	}
	quoted, err := json.Marshal(name)
	if err != nil { // Texts always encode.
		return path
	}
	return append(append(append(path, '['), quoted...), ']')
}

// isPlain reports whether a name can follow a dot.
func isPlain(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return name != ""
}
