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

// fieldFlags are flags for the fields of an endpoint. They are made from the contract, because a field that is new there gets its flag
// without a line here. Fields with parts of their own have none: they are given by a file, or by --set.
type fieldFlags struct{ kong.Plugins }

// newFieldFlags returns the flags of all fields.
func newFieldFlags() fieldFlags {
	fields := flagged()
	members := make([]reflect.StructField, len(fields))
	for i, f := range fields {
		members[i] = reflect.StructField{Name: "Flag" + strconv.Itoa(i), Type: flagType(f.Kind), Tag: flagTag(f)}
	}
	return fieldFlags{kong.Plugins{reflect.New(reflect.StructOf(members)).Interface()}}
}

// flagged returns the fields that have a flag.
func flagged() []contract.Field {
	return slices.DeleteFunc(slices.Clone(contract.Fields()), func(f contract.Field) bool { return f.Kind == contract.Composite })
}

// flagType returns the type of a flag. Nil stands for one that is not given.
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
	case contract.Pairs:
		return reflect.TypeFor[[]string]()
	default:
		return reflect.TypeFor[*string]()
	}
}

// flagTag returns the name, the help and the group of a flag, as the library reads them.
func flagTag(f contract.Field) reflect.StructTag {
	help := f.Help
	if len(f.Choices) > 0 {
		help += " One of " + strings.Join(f.Choices, ", ") + "."
	}
	if f.Default != nil && f.Default != false {
		help += " Default " + fieldText(f, f.Default) + "."
	}
	tag := fmt.Sprintf("name:%q group:%q", f.Flag, f.Group+":")
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
	default:
		tag += fmt.Sprintf(" placeholder:%q", strings.ToUpper(f.Flag))
	}
	return reflect.StructTag(tag + fmt.Sprintf(" help:%q", help))
}

// fields returns the fields that the flags set, as the API takes them. Whether an empty value or a zero makes sense is for the server to judge.
func (flags fieldFlags) fields() (map[string]any, error) {
	object := map[string]any{}
	set := reflect.ValueOf(flags.Plugins[0]).Elem()
	for i, f := range flagged() {
		if set.Field(i).IsNil() {
			continue
		}
		switch flag := set.Field(i).Interface().(type) {
		case []string:
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

// spelled returns a text as it is spelled among choices, whose case does not matter.
func spelled(choices []string, text string) string {
	for _, choice := range choices {
		if strings.EqualFold(choice, text) {
			return choice
		}
	}
	return text
}

// pairs sets a field to an object made of texts such as NAME=VALUE.
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

// fieldText writes a value of a field for people; empty: there is none.
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
