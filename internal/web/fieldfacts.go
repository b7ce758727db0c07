package web

import (
	"slices"
	"time"

	"rubato/client"
	"rubato/internal/contract"
)

// fact is a field of an endpoint as its page lists it.
type fact struct {
	title, value string
	common       bool // it is the default
	link         bool // the value is the address of a page
}

// facts returns the configuration of an endpoint: every field that has a value, and is neither none
// nor off. Those of several lines are in blocks, and those that the heading shows in neither.
func facts(e client.Endpoint) (list, blocks []fact) {
	endpoint := object(plain(e))
	f := form{fields: map[string]string{}}
	if e.BaselineCron != nil {
		f.fields["baseline"] = "cron"
	}
	list = []fact{{title: "Id", value: e.ID}}
	for _, field := range contract.Fields() {
		value := field.Value(endpoint)
		words := factWords(field, value)
		if words == "" || field.When != "" && field.When != f.baseline() || slices.Contains([]string{"name", "url", "method", "labels", "description"}, field.Path) {
			continue
		}
		one := fact{
			title:  field.Title,
			value:  words,
			common: field.Kind != contract.Composite && value == field.Default,
			link:   field.Kind == contract.Link,
		}
		if slices.Contains([]contract.Kind{contract.Lines, contract.Pairs, contract.List}, field.Kind) {
			one.common = false
			blocks = append(blocks, one)
		} else {
			list = append(list, one)
		}
	}
	return append(list, fact{title: "Version", value: count(e.Version)}), blocks
}

// failureFacts returns the given fields that are set, to be shown beside a failure of an endpoint.
func failureFacts(fields []contract.Field, e client.Endpoint) (list []fact) {
	endpoint := object(plain(e))
	for _, field := range fields {
		if words := factWords(field, field.Value(endpoint)); words != "" {
			list = append(list, fact{
				title: field.Title,
				value: words,
				link:  field.Kind == contract.Link,
			})
		}
	}
	return list
}

// factWords writes a value for a list of facts; empty: there is none, or it is off.
func factWords(field contract.Field, value any) string {
	switch value := value.(type) {
	case float64:
		switch {
		case value == 0:
			return ""
		case field.Kind == contract.Length:
			return ms(int64(value))
		}
		return count(int64(value))
	case bool:
		if field.Default == true && !value {
			return "no"
		}
		return map[bool]string{true: "yes"}[value]
	case []any:
		if field.Kind == contract.List {
			return listText(field, value)
		}
		return count(int64(len(value)))
	case map[string]any:
		if field.Kind == contract.Pairs {
			return pairsText(field, value)
		}
		if kind, is := value["type"].(string); is {
			return kind
		}
		return "set"
	case string:
		if field.Kind == contract.Instant {
			at, _ := time.Parse(time.RFC3339, value) // The API writes it so.
			return stamp(at)
		}
		return value
	}
	return ""
}
