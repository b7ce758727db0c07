package httpapi

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"rubato/internal/errs"
	"rubato/internal/jsonpath"
)

// shape checks values against schemas of the contract as far as reading them needs it: types,
// unknown members, instants, words of enumerations. The domain judges bounds. If it refuses a word
// too, its complaint takes precedence, so that each field has one.
type shape struct {
	malformed []errs.Field // cannot be read (400)
	missing   []errs.Field // members that the contract requires (422)
	unwanted  []errs.Field // strings that nothing can store, unknown words, numbers that nothing can hold (422)

	kept map[string][]int // of the arrays of which items were taken out: where the others were
}

// The codes of bad members.
const (
	codeUnknown    = "unknown_field"
	codeType       = "invalid_type"
	codeTime       = "invalid_time"
	codeRequired   = "required"
	codeCharacters = "invalid_characters"
	codeValue      = "invalid_value"
)

// check returns a value without its malformed parts, as plain maps and slices; ok is false if
// nothing is.
func (s *shape) check(path string, schema *openapi3.Schema, value any) (left any, ok bool) {
	schema, nullable := unwrap(schema)
	if isOpen(schema) {
		return s.open(path, schema, value)
	}
	switch v := value.(type) {
	case nil:
		if nullable {
			return nil, true
		}
	case bool:
		if schema.Type.Includes(openapi3.TypeBoolean) {
			return v, true
		}
	case json.Number:
		if schema.Type.Includes(openapi3.TypeInteger) {
			return s.integer(path, schema, v)
		}
		if schema.Type.Includes(openapi3.TypeNumber) {
			return s.number(path, v)
		}
	case string:
		if schema.Type.Includes(openapi3.TypeString) {
			return s.text(path, schema, v)
		}
	case []any:
		if schema.Type.Includes(openapi3.TypeArray) {
			return s.array(path, schema, v), true
		}
	case *object:
		if schema.Type.Includes(openapi3.TypeObject) {
			return s.object(path, schema, v), true
		}
	}
	s.bad(path, codeType, "must be "+wanted(schema, nullable)+", not "+kindOf(value))
	return nil, false
}

// isOpen reports whether the contract leaves open what kind of value it is.
func isOpen(schema *openapi3.Schema) bool {
	return schema.Type == nil || schema.Type.Includes(openapi3.TypeString) && schema.Type.Includes(openapi3.TypeNumber)
}

// open accepts the values of a schema that leaves their kind open.
func (s *shape) open(path string, schema *openapi3.Schema, value any) (any, bool) {
	if schema.Type.Includes(openapi3.TypeArray) {
		return s.anything(path, value)
	}
	return s.scalar(path, value)
}

// anything accepts any JSON whose scalars [shape.scalar] accepts.
func (s *shape) anything(path string, value any) (any, bool) {
	switch v := value.(type) {
	case []any:
		left := make([]any, len(v))
		for i, item := range v {
			var ok bool
			if left[i], ok = s.anything(path+"["+strconv.Itoa(i)+"]", item); !ok {
				return nil, false
			}
		}
		return left, true
	case *object:
		left := make(map[string]any, len(v.names))
		for _, name := range v.names {
			member, ok := s.anything(join(path, name), v.values[name])
			if !ok {
				return nil, false
			}
			left[name] = member
		}
		return left, true
	default:
		return s.scalar(path, value)
	}
}

// scalar accepts any value that is not an object or a list, except a number that a 64-bit float
// cannot represent, because it is stored as a float and would compare as another number.
func (s *shape) scalar(path string, value any) (any, bool) {
	switch v := value.(type) {
	case nil, bool:
		return v, true
	case string:
		return s.text(path, &openapi3.Schema{}, v)
	case json.Number:
		f, err := v.Float64()
		if kept, _ := json.Marshal(f); err == nil && jsonpath.Compare(v, json.Number(kept)) == 0 {
			return v, true
		}
		s.bad(path, codeType, "must be a number that 64 bits of floating point hold as it is written, as they do one of up to 15 digits; "+
			"a longer whole number is compared by a rule of type cel")
		return nil, false
	default:
		s.bad(path, codeType, "must be a string, a number, true, false or null, not "+kindOf(value))
		return nil, false
	}
}

// integer accepts whole numbers that are written as such and fit 64 bits. Any other number could be
// rounded on the way.
func (s *shape) integer(path string, schema *openapi3.Schema, v json.Number) (any, bool) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		message := "must be a whole number, written without fraction or exponent"
		if !strings.ContainsAny(string(v), ".eE") {
			message = "must be a whole number of at most 64 bits"
		}
		s.bad(path, codeType, message)
		return nil, false
	}
	if schema.Format == "int32" && int64(int32(n)) != n {
		s.unwanted = append(s.unwanted, errs.Field{
			Field:   path,
			Code:    "out_of_range",
			Message: "must be a whole number of at most 32 bits",
		})
		return nil, false
	}
	return v, true
}

// number accepts numbers that a 64-bit float can hold, rounded.
func (s *shape) number(path string, v json.Number) (any, bool) {
	if _, err := v.Float64(); err != nil {
		s.bad(path, codeType, "must be a number of at most 64 bits of floating point")
		return nil, false
	}
	return v, true
}

func (s *shape) text(path string, schema *openapi3.Schema, v string) (any, bool) {
	if schema.Format == "date-time" {
		if _, err := parseInstant(v); err != nil {
			s.bad(path, codeTime, `must be an RFC 3339 instant with a zone, such as "2026-11-21T10:00:00Z"`)
			return nil, false
		}
	}
	if strings.ContainsRune(v, 0) {
		s.unwanted = append(s.unwanted, errs.Field{
			Field:   path,
			Code:    codeCharacters,
			Message: "must not hold the character U+0000",
		})
	}
	if len(schema.Enum) > 0 && !slices.Contains(schema.Enum, any(v)) {
		s.unwanted = append(s.unwanted, errs.Field{
			Field:   path,
			Code:    codeValue,
			Message: "must be one of " + listed(schema.Enum),
		})
	}
	return v, true
}

func (s *shape) array(path string, schema *openapi3.Schema, items []any) []any {
	left, places := make([]any, 0, len(items)), make([]int, 0, len(items))
	for i, item := range items {
		if v, ok := s.check(path+"["+strconv.Itoa(i)+"]", schema.Items.Value, item); ok {
			left, places = append(left, v), append(places, i)
		}
	}
	if len(left) < len(items) {
		if s.kept == nil {
			s.kept = map[string][]int{}
		}
		s.kept[path] = places
	}
	return left
}

func (s *shape) object(path string, schema *openapi3.Schema, o *object) map[string]any {
	left := make(map[string]any, len(o.names))
	for _, name := range o.names {
		at := join(path, name)
		member := memberOf(schema, name)
		if member == nil {
			s.unknown(at, schema, name)
			continue
		}
		if v, ok := s.check(at, member, o.values[name]); ok {
			left[name] = v
		}
	}
	for _, name := range schema.Required {
		if _, given := o.values[name]; !given {
			s.missing = append(s.missing, errs.Field{
				Field:   join(path, name),
				Code:    codeRequired,
				Message: "must be given",
			})
		}
	}
	return left
}

func (s *shape) bad(path, code, message string) {
	s.malformed = append(s.malformed, errs.Field{
		Field:   path,
		Code:    code,
		Message: message,
	})
}

// memberOf returns the schema of a member, nil where the contract knows none.
func memberOf(schema *openapi3.Schema, name string) *openapi3.Schema {
	if member, ok := schema.Properties[name]; ok {
		return member.Value
	}
	if rest := schema.AdditionalProperties.Schema; rest != nil {
		return rest.Value
	}
	return nil
}

// unknown adds an error for a member that is not in the contract, and suggests the closest known
// name. It looks for one only as long as the answer will show it.
func (s *shape) unknown(path string, schema *openapi3.Schema, name string) {
	message := "is not a field here"
	if len(s.malformed) < maxFields && len(name) <= maxName {
		if known := similar(schema, name); known != "" {
			message += "; use " + known
		}
	}
	s.bad(path, codeUnknown, message)
}

// similar returns the known member that a name must mean: the one that differs in case or
// punctuation only, else the only one that has it inside, as baselineCron has cron, or that two
// letters make of it. It is empty where there is none, or more than one.
func similar(schema *openapi3.Schema, name string) string {
	meant := plain(name)
	var near []string
	for known := range schema.Properties {
		switch k := plain(known); {
		case k == meant:
			return known
		case len(meant) >= 4 && (strings.Contains(k, meant) || errs.Distance(k, meant) <= 2):
			near = append(near, known)
		}
	}
	if len(near) != 1 {
		return ""
	}
	return near[0]
}

// plain drops what naming conventions differ in.
func plain(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name, "_", ""), "-", ""))
}

// unwrap returns the schema of the value itself where null is one of two alternatives.
func unwrap(schema *openapi3.Schema) (inner *openapi3.Schema, nullable bool) {
	for _, alternative := range schema.OneOf {
		if alternative.Value.Type.Is(openapi3.TypeNull) {
			nullable = true
		} else {
			inner = alternative.Value
		}
	}
	if inner == nil {
		return schema, schema.Type.Includes(openapi3.TypeNull)
	}
	return inner, nullable
}

// wanted names the type of a schema.
func wanted(schema *openapi3.Schema, nullable bool) string {
	var name string
	switch {
	case schema.Type.Includes(openapi3.TypeBoolean):
		name = "true or false"
	case schema.Type.Includes(openapi3.TypeInteger):
		name = "a whole number"
	case schema.Type.Includes(openapi3.TypeNumber):
		name = "a number"
	case schema.Type.Includes(openapi3.TypeObject):
		name = "an object"
	case schema.Type.Includes(openapi3.TypeArray):
		name = "an array"
	default:
		name = "a string"
	}
	if nullable {
		name += " or null"
	}
	return name
}

// kindOf names the type of a value.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}
