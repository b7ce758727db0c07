package jsonpath

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	rfc9535 "github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"

	"rubato/internal/budget"
)

const (
	maxPath     = 1024 // bytes
	maxSegments = 32   // of a path
	// maxLocations is the maximum number of locations that Replace changes: every value of the
	// largest document once.
	maxLocations = MaxValues
)

// ErrTooMuch is returned if a path selects too many locations.
var ErrTooMuch = fmt.Errorf("the path names more than %d places", maxLocations)

// Path is a JSONPath (RFC 9535). Its filters may only read single locations below the tested value,
// so that their cost is constant. It is safe for concurrent use.
type Path struct {
	text     string
	segments []*spec.Segment
}

// Parse parses a path. The error describes the right form.
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
			if f, is := selector.(*spec.FilterSelector); is && !hasConstantCost(f) {
				return nil, errors.New("must have filters that look at single places below @, such as [?@.state == 'open']; no $, .., *, slice or pattern in a filter")
			}
		}
	}
	return p, nil
}

// parse turns panics of the library into errors, because the text is untrusted.
func parse(text string) (p *rfc9535.Path, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	p, err = rfc9535.Parse(text)
	if err != nil { // drop the library's prefix
		err = errors.New(strings.TrimPrefix(err.Error(), "jsonpath: "))
	}
	return p, err
}

// String returns the path in its original form.
func (p *Path) String() string { return p.text }

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)

// hasConstantCost reports whether a filter costs the same for every value: it reads only single
// locations below it. Regular expressions are refused, because the library compiles them for every
// value and may read them from the document.
func hasConstantCost(f *spec.FilterSelector) bool {
	rest := strings.TrimPrefix(quoted.ReplaceAllString(f.String(), "_"), "?")
	return !strings.ContainsAny(rest, "$*?:") && !strings.Contains(rest, "..") &&
		!strings.Contains(rest, "match(") && !strings.Contains(rest, "search(")
}

// location is the position of a value: a member or element of its holder, or the document itself.
type location struct {
	holder any // map[string]any or []any
	name   string
	index  int
	value  any
}

// set replaces the value at a location.
func (d *Document) set(p location, value any) {
	switch holder := p.holder.(type) {
	case map[string]any:
		holder[p.name] = value
	case []any:
		holder[p.index] = value
	default:
		d.root = value
	}
}

// Each calls visit with the value at each selected location until visit returns false. Values are
// those of encoding/json, with numbers as json.Number, and belong to the document. Members are
// visited in the order of their names. The error is that of the budget, or of a filter. It
// allocates no memory for results.
func (p *Path) Each(d *Document, b *budget.Budget, visit func(value any) bool) error {
	return p.search(d, b, func(at location) bool { return visit(at.value) })
}

// Replace replaces the value at every selected location, and returns their number. On an error
// nothing is replaced; it is that of the budget, [ErrTooMuch] or that of a filter.
func (p *Path) Replace(d *Document, b *budget.Budget, value any) (int, error) {
	found, full := d.found[:0], false
	err := p.search(d, b, func(at location) bool {
		if full = len(found) == maxLocations; full {
			return false
		}
		at.value = nil
		found = append(found, at)
		return true
	})
	d.found = found // reused by the next path
	if full {
		err = ErrTooMuch
	}
	if err != nil {
		return 0, err
	}
	for _, at := range found {
		d.set(at, value)
	}
	return len(found), nil
}

// search is one depth-first search. Its memory is one location per level of document and path.
type search struct {
	root   any
	budget *budget.Budget
	visit  func(location) bool // false ends the search
	err    error
	over   bool
}

func (p *Path) search(d *Document, b *budget.Budget, visit func(location) bool) error {
	s := &search{
		root:   d.root,
		budget: b,
		visit:  visit,
	}
	if s.spend(1) {
		s.walk(p.segments, location{value: d.root})
	}
	return s.err
}

// spend takes steps from the budget, and reports whether the search continues.
func (s *search) spend(steps int) bool {
	if s.over {
		return false
	}
	if err := s.budget.Spend(steps); err != nil {
		s.err, s.over = err, true
	}
	return !s.over
}

// walk visits the locations that segments select below a location.
func (s *search) walk(segments []*spec.Segment, from location) {
	if len(segments) == 0 {
		s.over = !s.visit(from)
		return
	}
	for _, selector := range segments[0].Selectors() {
		s.selector(selector, from.value, segments[1:])
	}
	if segments[0].IsDescendant() {
		s.children(from.value, func(child location) { s.walk(segments, child) })
	}
}

// selector continues the search at the values that a selector selects.
func (s *search) selector(selector spec.Selector, value any, rest []*spec.Segment) {
	if !s.spend(1) {
		return
	}
	switch sel := selector.(type) {
	case spec.Name:
		if members, ok := value.(map[string]any); ok {
			if member, there := members[string(sel)]; there {
				s.walk(rest, location{
					holder: value,
					name:   string(sel),
					value:  member,
				})
			}
		}
	case spec.Index:
		if list, ok := value.([]any); ok {
			i := int(sel)
			if i < 0 {
				i += len(list)
			}
			if i >= 0 && i < len(list) {
				s.walk(rest, location{
					holder: value,
					index:  i,
					value:  list[i],
				})
			}
		}
	case spec.SliceSelector:
		s.slice(sel, value, rest)
	case *spec.FilterSelector:
		s.children(value, func(child location) {
			if s.passes(sel, child.value) {
				s.walk(rest, child)
			}
		})
	default: // The wildcard.
		s.children(value, func(child location) { s.walk(rest, child) })
	}
}

func (s *search) slice(sel spec.SliceSelector, value any, rest []*spec.Segment) {
	list, ok := value.([]any)
	if !ok {
		return
	}
	lower, upper := sel.Bounds(len(list))
	step := sel.Step()
	switch {
	case step > 0:
		for i := lower; i < upper && i >= 0 && s.spend(1); i += step {
			s.walk(rest, location{
				holder: value,
				index:  i,
				value:  list[i],
			})
		}
	case step < 0:
		for i := upper; lower < i && s.spend(1); i += step {
			s.walk(rest, location{
				holder: value,
				index:  i,
				value:  list[i],
			})
		}
	}
}

// passes evaluates a filter. A panic of the library ends the search with an error, because
// otherwise a value that must be redacted might be missed.
func (s *search) passes(f *spec.FilterSelector, value any) (ok bool) {
	defer func() {
		if fault := recover(); fault != nil {
			s.err, s.over, ok = fmt.Errorf("evaluating the filter %s: %v", f, fault), true, false
		}
	}()
	return f.Eval(value, s.root)
}

// sortSteps is the number of budget steps per member for sorting an object.
const sortSteps = 4

// children calls visit with every member or element of a value until the search ends.
func (s *search) children(value any, visit func(location)) {
	switch v := value.(type) {
	case []any:
		for i := range v {
			if !s.spend(1) {
				return
			}
			visit(location{
				holder: value,
				index:  i,
				value:  v[i],
			})
		}
	case map[string]any:
		if !s.spend(sortSteps * len(v)) {
			return
		}
		for _, name := range sortedNames(v) {
			if !s.spend(1) {
				return
			}
			visit(location{
				holder: value,
				name:   name,
				value:  v[name],
			})
		}
	}
}

// sortedNames returns the member names in order.
func sortedNames(members map[string]any) []string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
