package web

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/contract"
	"rubato/internal/notation"
)

// document converts the fields to the JSON document of the API. Each value that cannot be parsed
// becomes an error of its field.
func (f *form) document() map[string]any {
	d := map[string]any{}
	for _, field := range contract.Fields() {
		if field.Kind == contract.Composite || f.otherBaseline(field) {
			continue
		}
		value, err := readField(field, f.fields[field.Path])
		switch {
		case err != nil:
			f.errors[field.Path] = err.Error()
		case value != nil:
			field.Put(d, value)
		}
	}
	f.putDelivery(d)
	return d
}

func (f *form) get(name string) string { return strings.TrimSpace(f.fields[name]) }

// baseline returns the kind of baseline that is chosen: interval or cron.
func (f *form) baseline() string {
	if f.get("baseline") == "cron" {
		return "cron"
	}
	return "interval"
}

// otherBaseline reports whether a field belongs to the baseline that is not selected. Its related
// fields, such as the time zone of a cron, have a default and is kept.
func (f *form) otherBaseline(field contract.Field) bool {
	return field.When != "" && field.Default == nil && field.When != f.baseline()
}

// readField returns the value of a field as the API takes it; nil: it is empty.
func readField(field contract.Field, written string) (any, error) {
	text := strings.TrimSpace(written)
	if field.Verbatim {
		text = written
	}
	if field.Kind == contract.Pairs {
		return readPairs(field, written)
	}
	if text == "" && field.Kind == contract.Switch && field.Default == true {
		return false, nil // A cleared box turns off what is on by default.
	}
	if text == "" {
		return nil, nil //nolint:nilnil // An empty field has no value, and is no error.
	}
	switch field.Kind {
	case contract.Length:
		n, err := parseLength(text)
		return float64(n), err
	case contract.Number:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, errors.New("must be a whole number")
		}
		return float64(n), nil
	case contract.Switch:
		return true, nil
	case contract.Instant:
		return withZone(text), nil
	case contract.Lines:
		return plainLines(text), nil
	case contract.List:
		return readList(text), nil
	default:
		return text, nil
	}
}

// readList returns a list that is written one text a line.
func readList(written string) []any {
	var list []any
	for line := range strings.Lines(written) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// readPairs returns an object that is written one member a line.
func readPairs(field contract.Field, written string) (any, error) {
	object := map[string]any{}
	for line := range strings.Lines(written) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, found := notation.CutPair(line, field.Separator[0])
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || name == "" {
			separator := map[string]string{":": "a colon", "=": "an equals sign"}[field.Separator]
			return nil, fmt.Errorf("every line must be a name, %s and a value, such as %s", separator, field.Placeholder)
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("names %s twice", name)
		}
		if field.Quoted {
			value = unquoted(value)
		}
		object[name] = value
	}
	return object, nil
}

// withZone writes an instant of a form, which is UTC, as the API reads it.
func withZone(at string) string {
	switch len(at) {
	case len("2006-01-02T15:04"):
		return at + ":00Z"
	case len("2006-01-02T15:04:05"):
		return at + "Z"
	default:
		return at
	}
}

// fieldsOf returns the field values of an endpoint's form.
func fieldsOf(e client.Endpoint) map[string]string {
	endpoint := object(plain(e))
	fields := map[string]string{"baseline": "interval"}
	if endpoint["baselineCron"] != nil {
		fields["baseline"] = "cron"
	}
	for _, field := range contract.Fields() {
		fields[field.Path] = fieldText(field, field.Value(endpoint))
	}
	fillDelivery(fields, endpoint)
	return fields
}

// fieldText formats a field's value for readField; empty: no value, or a field with a form of its
// own.
func fieldText(field contract.Field, value any) string {
	switch value := value.(type) {
	case float64:
		if field.Kind == contract.Length {
			return lengthField(int64(value))
		}
		return strconv.FormatInt(int64(value), 10)
	case bool:
		return map[bool]string{true: "on"}[value]
	case map[string]any:
		return pairsText(field, value)
	case []any:
		return listText(field, value)
	case string:
		switch field.Kind {
		case contract.Lines:
			return value
		case contract.Instant:
			at, _ := time.Parse(time.RFC3339, value) // The API writes it so.
			return at.UTC().Format("2006-01-02T15:04:05")
		default:
			return oneLine(value)
		}
	}
	return ""
}

// listText writes a list of texts one a line.
func listText(field contract.Field, list []any) string {
	if field.Kind != contract.List {
		return ""
	}
	lines := make([]string, len(list))
	for i, text := range list {
		lines[i] = oneLine(fmt.Sprint(text))
	}
	return strings.Join(lines, "\n")
}

// pairsText writes an object one member a line.
func pairsText(field contract.Field, members map[string]any) string {
	if field.Kind != contract.Pairs {
		return ""
	}
	separator := map[string]string{":": ": ", "=": "="}[field.Separator]
	lines := make([]string, 0, len(members))
	for name, value := range members {
		text, _ := value.(string) // They are texts.
		if field.Quoted {
			text = lineText(text)
		}
		lines = append(lines, notation.JoinPair(name, separator, text))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// lineBreaks are what browsers drop from fields of one line.
const lineBreaks = "\r\n"

// oneLine returns a text in which all blanks mean the same with its line breaks as blanks.
func oneLine(text string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(text) }

// plainLines normalizes the line ends CRLF, which browsers send, and CR to LF.
func plainLines(text string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
}
