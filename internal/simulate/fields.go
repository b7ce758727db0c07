package simulate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"rubato/internal/errs"
	"rubato/internal/notation"
)

// The codes of bad fields.
const (
	codeRequired = "required"
	codeUnknown  = "unknown_field"
	codeType     = "invalid_type"
	codeValue    = "invalid_value"
	codeRange    = "out_of_range"
)

// faults collects the bad fields of a scenario.
type faults struct{ list []errs.Field }

func (f *faults) add(field, code, message string) {
	f.list = append(f.list, errs.Field{
		Field:   field,
		Code:    code,
		Message: message,
	})
}

// object reads the members of a JSON object and collects the faults.
type object struct {
	*faults

	path    string
	members map[string]any
	// known are the names that were asked for.
	known map[string]bool
}

// newObject returns a reader of a value at a path. A value that is no object is a fault and reads
// as an empty one; ok is false then.
func newObject(f *faults, path string, value any) (o *object, ok bool) {
	members, ok := value.(map[string]any)
	if !ok {
		f.add(path, codeType, "must be an object, not "+kindOf(value))
	}
	return &object{
		faults:  f,
		path:    path,
		members: members,
		known:   map[string]bool{},
	}, ok
}

// at returns the path of a member.
func (o *object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// member returns a member. given is false if it is absent or null.
func (o *object) member(name string) (value any, given bool) {
	o.known[name] = true
	value = o.members[name]
	return value, value != nil
}

// require adds a fault if a member is absent.
func (o *object) require(name, form string) (value any, given bool) {
	if value, given = o.member(name); !given {
		o.add(o.at(name), codeRequired, "must be given: "+form)
	}
	return value, given
}

// The forms of values, for messages.
const (
	formDuration = "a duration such as 25m"
	formRate     = "a number of changes per second such as 0.03"
)

// duration reads a required positive duration.
func (o *object) duration(name string) time.Duration {
	value, given := o.require(name, formDuration)
	if !given {
		return 0
	}
	return o.readDuration(o.at(name), value)
}

// optionalDuration reads a positive duration; 0 if it is absent.
func (o *object) optionalDuration(name string) time.Duration {
	value, given := o.member(name)
	if !given {
		return 0
	}
	return o.readDuration(o.at(name), value)
}

// longest bounds durations of a scenario, so that sums of them do not overflow.
const longest = 366 * 24 * time.Hour

func (o *object) readDuration(path string, value any) time.Duration {
	text, ok := value.(string)
	if !ok {
		o.add(path, codeType, "must be "+formDuration+", not "+kindOf(value))
		return 0
	}
	d, err := notation.ParseDuration(text, "")
	switch {
	case err != nil:
		o.add(path, codeValue, fmt.Sprintf("must be %s, not %q", formDuration, text))
		return 0
	case d < time.Millisecond || d > longest:
		o.add(path, codeRange, "must be 1ms to 366d")
		return 0
	default:
		return d
	}
}

// most bounds rates. A target that changes a thousand times a second is beyond any interval.
const most = 1000

// rate reads a required rate per second.
func (o *object) rate(name string) float64 {
	value, given := o.require(name, formRate)
	if !given {
		return 0
	}
	return o.readNumber(o.at(name), value, formRate, most)
}

// readNumber reads a number from 0 to a limit.
func (o *object) readNumber(path string, value any, form string, limit float64) float64 {
	n, ok := value.(float64)
	switch {
	case !ok:
		o.add(path, codeType, "must be "+form+", not "+kindOf(value))
		return 0
	case n < 0 || n > limit || math.IsNaN(n):
		o.add(path, codeRange, fmt.Sprintf("must be 0 to %v", limit))
		return 0
	default:
		return n
	}
}

// items reads a list; nil if it is absent.
func (o *object) items(name string) []any {
	value, given := o.member(name)
	if !given {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		o.add(o.at(name), codeType, "must be a list, not "+kindOf(value))
	}
	return list
}

// text reads a text; empty if it is absent.
func (o *object) text(name string) string {
	value, given := o.member(name)
	if !given {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		o.add(o.at(name), codeType, "must be text, not "+kindOf(value))
	}
	return text
}

// flag reads a boolean; false if it is absent.
func (o *object) flag(name string) bool {
	value, given := o.member(name)
	if !given {
		return false
	}
	yes, ok := value.(bool)
	if !ok {
		o.add(o.at(name), codeType, "must be true or false, not "+kindOf(value))
	}
	return yes
}

// end adds a fault for each member that was not asked for.
func (o *object) end() {
	names := strings.Join(slices.Sorted(maps.Keys(o.known)), ", ")
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		if !o.known[name] {
			o.add(o.at(name), codeUnknown, "is not known here; known are "+names)
		}
	}
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	case string:
		return "text"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}
