package endpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Document returns the spec as the JSON document that the API, the database and exports share, made
// of maps, slices and scalars. The json tags of [Spec] name the members and mark those that omit an
// empty value. Durations are whole milliseconds, instants RFC 3339 text in UTC. [ReadSpec] is the
// inverse for a normalized spec.
func (s *Spec) Document() map[string]any {
	return show(reflect.ValueOf(s).Elem()).(map[string]any) //nolint:forcetypeassert // A struct is shown as a map.
}

// MarshalJSON implements [json.Marshaler] by Document.
func (s Spec) MarshalJSON() ([]byte, error) { return json.Marshal(s.Document()) }

// UnmarshalJSON decodes a document that [Spec.MarshalJSON] wrote, as [ReadSpec] does. It is for
// stored documents, because workers decode them often: it takes a third of the time of ReadSpec. It
// does not distinguish a given zero from an absent member.
func (s *Spec) UnmarshalJSON(text []byte) error {
	type plain Spec // Without this method.
	*s = Defaults()
	eachDuration(reflect.ValueOf(s).Elem(), time.Duration.Milliseconds)
	err := json.Unmarshal(text, (*plain)(s))
	eachDuration(reflect.ValueOf(s).Elem(), func(d time.Duration) int64 { return int64(Milliseconds(int64(d))) })
	return err
}

// eachDuration replaces every duration of a struct by the result of change.
func eachDuration(v reflect.Value, change func(time.Duration) int64) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[time.Duration]():
			f.SetInt(change(time.Duration(f.Int())))
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[time.Time]():
			eachDuration(f, change)
		}
	}
}

// ReadSpec reads the known members of a document and ignores the others. An absent or null member
// gets its default of [Defaults]. ReadSpec does not validate. A value that the domain cannot hold
// becomes one that [Validator.Check] refuses. So does a given zero of a field with the tag
// zero:"refused", because zero means "not given" there. For each member of another JSON type the
// error holds a [json.UnmarshalTypeError] with its path; the spec has the other members.
func ReadSpec(document map[string]any) (Spec, error) {
	s := Defaults()
	return s, read("", document, reflect.ValueOf(&s).Elem())
}

// field describes a struct field in documents.
type field struct {
	name      string
	index     int
	omitempty bool // documents omit an empty value
	refused   bool // a given zero becomes a value that the validator refuses
}

// fieldOf parses the tags of a struct field.
func fieldOf(f reflect.StructField) field {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return field{
		name:      name,
		index:     f.Index[0],
		omitempty: options != "",
		refused:   f.Tag.Get("zero") == "refused",
	}
}

// known caches the fields of each struct by its [reflect.Type].
var known sync.Map

func fieldsOf(t reflect.Type) []field {
	if list, found := known.Load(t); found {
		return list.([]field) //nolint:forcetypeassert // Nothing else is stored.
	}
	list := make([]field, t.NumField())
	for i := range list {
		list[i] = fieldOf(t.Field(i))
	}
	known.Store(t, list)
	return list
}

// empty reports whether documents omit the field for a value.
func (f field) empty(v reflect.Value) bool {
	if k := v.Kind(); k == reflect.Map || k == reflect.Slice {
		return v.Len() == 0
	}
	return f.omitempty && zero(v)
}

// zero reports whether a value is the zero of its type. The zero instant is zero in every zone.
func zero(v reflect.Value) bool {
	if t, ok := reflect.TypeAssert[time.Time](v); ok {
		return t.IsZero()
	}
	return v.IsZero()
}

// show returns the document form of a value.
func show(v reflect.Value) any {
	switch v.Type() {
	case reflect.TypeFor[time.Duration]():
		return time.Duration(v.Int()).Milliseconds()
	case reflect.TypeFor[time.Time]():
		return v.Interface().(time.Time).UTC().Format(time.RFC3339Nano) //nolint:forcetypeassert // Its type was asked.
	}
	switch v.Kind() {
	case reflect.Struct:
		out := make(map[string]any, v.NumField())
		for _, f := range fieldsOf(v.Type()) {
			if member := v.Field(f.index); !f.empty(member) {
				out[f.name] = show(member)
			}
		}
		return out
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for name, member := range v.Seq2() {
			out[name.String()] = show(member)
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = show(v.Index(i))
		}
		return out
	case reflect.Pointer:
		return show(v.Elem())
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int64:
		return v.Int()
	default:
		return v.Interface()
	}
}

// read decodes a part of a document into a value. Null leaves the value as it is.
func read(path string, from any, into reflect.Value) error {
	if from == nil {
		return nil
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return read(path, from, into.Elem())
	case reflect.Interface:
		return readAny(path, from, into)
	case reflect.Struct:
		if text, ok := from.(string); ok && into.Type() == reflect.TypeFor[time.Time]() {
			return readInstant(path, text, into)
		}
		if members, ok := from.(map[string]any); ok {
			return readFields(path, members, into)
		}
	case reflect.Map:
		if members, ok := from.(map[string]any); ok {
			return readMap(path, members, into)
		}
	case reflect.Slice:
		if items, ok := from.([]any); ok {
			return readSlice(path, items, into)
		}
	default:
		return readScalar(path, from, into)
	}
	return wrongType(path, from, into)
}

func readScalar(path string, from any, into reflect.Value) error {
	switch into.Kind() {
	case reflect.String:
		if text, ok := from.(string); ok {
			into.SetString(text)
			return nil
		}
	case reflect.Bool:
		if is, ok := from.(bool); ok {
			into.SetBool(is)
			return nil
		}
	default:
		return readInteger(path, from, into)
	}
	return wrongType(path, from, into)
}

// readFields decodes every given field, and continues after a field of the wrong type, so that the
// error names all of them.
func readFields(path string, members map[string]any, into reflect.Value) error {
	var faults []error
	for _, f := range fieldsOf(into.Type()) {
		from := members[f.name]
		if from == nil {
			continue
		}
		member := into.Field(f.index)
		if err := read(within(path, f.name), from, member); err != nil {
			faults = append(faults, err)
		} else if f.refused && zero(member) {
			impossible(member)
		}
	}
	return errors.Join(faults...)
}

// impossible sets a non-zero value that the validator always refuses.
func impossible(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(" ")
	case reflect.Struct: // An instant: another one in the year of the zero instant.
		v.Set(reflect.ValueOf(time.Time{}.Add(time.Millisecond)))
	default:
		v.SetInt(-1)
	}
}

func readMap(path string, members map[string]any, into reflect.Value) error {
	out := reflect.MakeMapWithSize(into.Type(), len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		member := reflect.New(into.Type().Elem()).Elem()
		if err := read(within(path, name), members[name], member); err != nil {
			return err
		}
		out.SetMapIndex(reflect.ValueOf(name), member)
	}
	into.Set(out)
	return nil
}

func readSlice(path string, items []any, into reflect.Value) error {
	out := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		if err := read(fmt.Sprintf("%s[%d]", path, i), item, out.Index(i)); err != nil {
			return err
		}
	}
	into.Set(out)
	return nil
}

func readInstant(path, text string, into reflect.Value) error {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return wrongType(path, text, into)
	}
	into.Set(reflect.ValueOf(t))
	return nil
}

// readAny decodes a scalar of any type. A number becomes the nearest float64.
func readAny(path string, from any, into reflect.Value) error {
	switch v := from.(type) {
	case json.Number:
		number, err := v.Float64()
		if err != nil {
			return wrongType(path, from, into)
		}
		into.Set(reflect.ValueOf(number))
	case string, bool, float64:
		into.Set(reflect.ValueOf(v))
	default:
		return wrongType(path, from, into)
	}
	return nil
}

func readInteger(path string, from any, into reflect.Value) error {
	number, ok := from.(int64)
	if text, is := from.(json.Number); is {
		var err error
		number, err = strconv.ParseInt(string(text), 10, 64)
		ok = err == nil
	}
	if !ok {
		return wrongType(path, from, into)
	}
	if into.Type() == reflect.TypeFor[time.Duration]() {
		number = int64(Milliseconds(number))
	}
	into.SetInt(number)
	return nil
}

// Milliseconds converts milliseconds to a duration. It saturates on overflow.
func Milliseconds(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	switch {
	case n > most:
		return math.MaxInt64
	case n < -most:
		return math.MinInt64
	default:
		return time.Duration(n) * time.Millisecond
	}
}

func within(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// wrongType returns the error for a member with a JSON type that does not fit its field.
func wrongType(path string, from any, into reflect.Value) error {
	kind := "object"
	switch from.(type) {
	case string:
		kind = "string"
	case bool:
		kind = "bool"
	case json.Number, float64, int64:
		kind = "number"
	case []any:
		kind = "array"
	}
	return &json.UnmarshalTypeError{
		Value: kind,
		Type:  into.Type(),
		Field: path,
	}
}
