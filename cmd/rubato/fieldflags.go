package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"rubato/internal/contract"
	"rubato/internal/notation"
)

// fieldFlags holds a flag per field of an endpoint. The flags are generated from the contract, so
// that a new field gets its flag without code here. Composite fields have no flag: --file or --set
// sets them.
type fieldFlags struct{ kong.Plugins }

// newFieldFlags returns the flags of all fields.
func newFieldFlags() fieldFlags {
	fields := flagged()
	members := make([]reflect.StructField, len(fields))
	for i, f := range fields {
		members[i] = reflect.StructField{
			Name: "Flag" + strconv.Itoa(i),
			Type: flagType(f.Kind),
			Tag:  flagTag(f),
		}
	}
	return fieldFlags{kong.Plugins{reflect.New(reflect.StructOf(members)).Interface()}}
}

// flagged returns the fields that have a flag.
func flagged() []contract.Field {
	return slices.DeleteFunc(slices.Clone(contract.Fields()), func(f contract.Field) bool { return f.Kind == contract.Composite })
}

// flagType returns the Go type of a flag. All types can be nil, because nil means that the flag is
// absent.
func flagType(kind contract.Kind) reflect.Type {
	switch kind {
	case contract.Length:
		return reflect.TypeFor[*time.Duration]()
	case contract.Number:
		return reflect.TypeFor[*int64]()
	case contract.Switch:
		return reflect.TypeFor[*bool]()
	case contract.Instant:
		return reflect.TypeFor[*time.Time]()
	case contract.Pairs, contract.List:
		return reflect.TypeFor[[]string]()
	default:
		return reflect.TypeFor[*string]()
	}
}

// flagTag returns the struct tag from which kong reads the name, the help and the group of a flag.
func flagTag(f contract.Field) reflect.StructTag {
	help := f.Help
	if len(f.Choices) > 0 {
		help += " One of " + strings.Join(f.Choices, ", ") + "."
	}
	if f.Default != nil && f.Default != false {
		help += " Default " + fieldText(f, f.Default) + "."
	}
	tag := fmt.Sprintf("name:%q group:%q", f.Flag, f.Group+":")
	if f.Alias != "" {
		tag += fmt.Sprintf(" aliases:%q", f.Alias)
	}
	switch f.Kind {
	case contract.Length:
		tag += ` placeholder:"DURATION"`
	case contract.Number:
		tag += ` placeholder:"N"`
	case contract.Instant:
		tag += ` placeholder:"TIME"`
	case contract.Switch:
		tag += ` negatable:""`
	case contract.Pairs:
		help += " May be repeated."
		tag += fmt.Sprintf(" sep:%q placeholder:%q", "none", map[string]string{"=": "NAME=VALUE", ":": "'NAME: VALUE'"}[f.Separator])
	case contract.List:
		help += " May be repeated."
		tag += fmt.Sprintf(` sep:"none" placeholder:%q`, f.Form)
	default:
		tag += fmt.Sprintf(" placeholder:%q", strings.ToUpper(f.Flag))
	}
	return reflect.StructTag(tag + fmt.Sprintf(" help:%q", help))
}

// fields returns the given flags in the format of the API. It includes empty values and zeros,
// because only the server validates them.
func (flags fieldFlags) fields() (map[string]any, error) {
	object := map[string]any{}
	set := reflect.ValueOf(flags.Plugins[0]).Elem()
	for i, f := range flagged() {
		if set.Field(i).IsNil() {
			continue
		}
		switch flag := set.Field(i).Interface().(type) {
		case []string:
			if f.Kind == contract.List {
				f.Put(object, flag)
				continue
			}
			if err := pairs(object, f.Path, flag, f.Separator[0]); err != nil {
				return nil, err
			}
		case *time.Duration:
			f.Put(object, flag.Milliseconds())
		case *string:
			f.Put(object, spelled(f.Choices, *flag))
		default:
			f.Put(object, flag)
		}
	}
	return object, nil
}

// spelled returns the choice that equals text except for case, or text itself if no choice does.
func spelled(choices []string, text string) string {
	for _, choice := range choices {
		if strings.EqualFold(choice, text) {
			return choice
		}
	}
	return text
}

// pairs sets a field to an object that is parsed from texts such as NAME=VALUE. A repeated name is
// an error.
func pairs(fields map[string]any, field string, texts []string, separator byte) error {
	if len(texts) == 0 {
		return nil
	}
	object := map[string]string{}
	for _, text := range texts {
		name, value, found := notation.CutPair(text, separator)
		if !found {
			return usageError{fmt.Sprintf("%q has no %q between its name and its value", text, string(separator))}
		}
		name = strings.TrimSpace(name)
		if _, twice := object[name]; twice {
			return usageError{fmt.Sprintf("%q is given twice; keep one", name)}
		}
		object[name] = strings.TrimSpace(value)
	}
	fields[field] = object
	return nil
}

// fieldText formats the value of a field for a table; it is empty for nil.
func fieldText(f contract.Field, value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case float64:
		if f.Kind == contract.Length {
			return milliseconds(int64(value))
		}
		return strconv.FormatFloat(value, 'f', -1, 64)
	case bool:
		return map[bool]string{true: "yes", false: "no"}[value]
	case []any:
		lines := make([]string, len(value))
		for i, text := range value {
			lines[i] = fmt.Sprint(text)
		}
		return strings.Join(lines, "\n")
	case map[string]any:
		separator := map[string]string{":": ": ", "=": "="}[f.Separator]
		lines := make([]string, 0, len(value))
		for name, text := range value {
			lines = append(lines, notation.JoinPair(name, separator, fmt.Sprint(text)))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	default:
		return fmt.Sprint(value)
	}
}
