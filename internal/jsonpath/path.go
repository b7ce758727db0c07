package jsonpath

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	rfc9535 "github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

const (
	maxPath     = 1024 // bytes
	maxSegments = 32   // of a path
	// maxSteps is how many places of a document one search may look at: each value of the largest document a few times.
	maxSteps = 4 * MaxValues
)

// ErrTooMuch is the end of a search that would look at too many places.
var ErrTooMuch = fmt.Errorf("the search looks at more than %d places", maxSteps)

// Path is a JSONPath by RFC 9535 whose filters look at single places below the value that they judge. It is safe for concurrent use.
type Path struct {
	text     string
	segments []*spec.Segment
}

// Parse reads a path. The error says in words what would be right.
func Parse(text string) (*Path, error) {
	if len(text) > maxPath {
		return nil, fmt.Errorf("must be at most %d bytes long", maxPath)
	}
	parsed, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("must be a JSONPath by RFC 9535 such as $.status: %w", err)
	}
	p := &Path{text: text, segments: parsed.Query().Segments()}
	if len(p.segments) > maxSegments {
		return nil, fmt.Errorf("must have at most %d steps", maxSegments)
	}
	for _, segment := range p.segments {
		for _, selector := range segment.Selectors() {
			if f, is := selector.(*spec.FilterSelector); is && !cheap(f) {
				return nil, errors.New("must have filters that look at single places below @, such as [?@.state == 'open']; no $, .., *, slice or pattern in a filter")
			}
		}
	}
	return p, nil
}

// parse guards against a parser that does not expect what strangers write.
func parse(text string) (p *rfc9535.Path, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	p, err = rfc9535.Parse(text)
	if err != nil { // Its text begins with its own name.
		err = errors.New(strings.TrimPrefix(err.Error(), "jsonpath: "))
	}
	return p, err
}

// String returns the path as it was written.
func (p *Path) String() string { return p.text }

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)

// cheap reports whether a filter costs the same for every value that it judges: it looks at single places below that value alone. Patterns
// are refused because the library compiles them anew for every value, and may take them from the document.
func cheap(f *spec.FilterSelector) bool {
	rest := strings.TrimPrefix(quoted.ReplaceAllString(f.String(), "_"), "?")
	return !strings.ContainsAny(rest, "$*?:") && !strings.Contains(rest, "..") &&
		!strings.Contains(rest, "match(") && !strings.Contains(rest, "search(")
}

// place is where a value stands: in a member or an element of its holder, or nowhere, where it is the document itself.
type place struct {
	holder any
	name   string
	index  int
	value  any
}

// put puts another value in the place, which must not be the document itself.
func (p place) put(value any) {
	switch holder := p.holder.(type) {
	case map[string]any:
		holder[p.name] = value
	case []any:
		holder[p.index] = value
	}
}

// Find returns the values at the places that the path names: strings, json.Number, booleans, nil, []any and map[string]any, which are
// the document's own. Of an object they come in the order of the members' names. The error is [ErrTooMuch], or
// a fault of a filter.
func (p *Path) Find(d *Document) ([]any, error) {
	places, err := p.places(d)
	if err != nil {
		return nil, err
	}
	values := make([]any, len(places))
	for i, at := range places {
		values[i] = at.value
	}
	return values, nil
}

// Replace puts value in every place that the path names, and returns how many there were. With an error, such as [ErrTooMuch], nothing was
// replaced.
func (p *Path) Replace(d *Document, value any) (int, error) {
	places, err := p.places(d)
	if err != nil {
		return 0, err
	}
	for _, at := range places {
		if at.holder == nil {
			d.root = value
		} else {
			at.put(value)
		}
	}
	return len(places), nil
}

// search is one walk through a document.
type search struct {
	root any
	left int // places that may still be looked at; below zero the search is over
	err  error
}

func (p *Path) places(d *Document) ([]place, error) {
	s := &search{root: d.root, left: maxSteps}
	at := []place{{value: d.root}}
	for _, segment := range p.segments {
		var next []place
		for _, from := range at {
			s.segment(&next, segment, from)
			if s.left < 0 {
				return nil, cmp.Or(s.err, ErrTooMuch)
			}
		}
		at = next
	}
	return at, nil
}

// segment adds what a segment selects below a place.
func (s *search) segment(to *[]place, segment *spec.Segment, from place) {
	for _, selector := range segment.Selectors() {
		s.selector(to, selector, from.value)
	}
	if segment.IsDescendant() {
		s.children(from.value, func(child place) {
			s.segment(to, segment, child)
		})
	}
}

// selector adds what a selector selects of a value.
func (s *search) selector(to *[]place, selector spec.Selector, value any) {
	switch sel := selector.(type) {
	case spec.Name:
		if members, ok := value.(map[string]any); ok {
			if member, there := members[string(sel)]; there {
				s.add(to, place{holder: members, name: string(sel), value: member})
			}
		}
	case spec.Index:
		if list, ok := value.([]any); ok {
			s.element(to, list, int(sel))
		}
	case spec.SliceSelector:
		if list, ok := value.([]any); ok {
			s.slice(to, sel, list)
		}
	case *spec.FilterSelector:
		s.filter(to, sel, value)
	default: // The wildcard.
		s.children(value, func(child place) { s.add(to, child) })
	}
	s.left--
}

func (s *search) add(to *[]place, p place) {
	if s.left--; s.left >= 0 {
		*to = append(*to, p)
	}
}

func (s *search) element(to *[]place, list []any, i int) {
	if i < 0 {
		i += len(list)
	}
	if i >= 0 && i < len(list) {
		s.add(to, place{holder: list, index: i, value: list[i]})
	}
}

func (s *search) slice(to *[]place, sel spec.SliceSelector, list []any) {
	lower, upper := sel.Bounds(len(list))
	step := sel.Step()
	switch {
	case step > 0:
		for i := lower; i < upper && i >= 0; i += step {
			s.element(to, list, i)
		}
	case step < 0:
		for i := upper; lower < i; i += step {
			s.element(to, list, i)
		}
	}
}

func (s *search) filter(to *[]place, f *spec.FilterSelector, value any) {
	s.children(value, func(child place) {
		if s.passes(f, child.value) {
			s.add(to, child)
		}
	})
}

// passes evaluates a filter. A fault of the library ends the search: what is not found might have had to be hidden.
func (s *search) passes(f *spec.FilterSelector, value any) (ok bool) {
	defer func() {
		if fault := recover(); fault != nil {
			s.err, s.left = fmt.Errorf("evaluating the filter %s: %v", f, fault), -1
		}
	}()
	return f.Eval(value, s.root)
}

// children calls visit with every member or element of a value, until there is nothing left to spend.
func (s *search) children(value any, visit func(place)) {
	switch v := value.(type) {
	case []any:
		for i := range v {
			if s.left--; s.left < 0 {
				return
			}
			visit(place{holder: v, index: i, value: v[i]})
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if s.left--; s.left < 0 {
				return
			}
			visit(place{holder: v, name: name, value: v[name]})
		}
	}
}
