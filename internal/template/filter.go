package template

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// filter transforms a value.
type filter struct {
	name string
	// kind is the kind of its result. For the filter default it is the kind of its input.
	kind  kind
	apply func(value) (value, error)
}

// recipe builds a filter from its arguments. Its error states the right form.
type recipe func(args []token, of kind) (filter, error)

// recipes returns every filter by name.
func recipes() map[string]recipe {
	return map[string]recipe{
		"upper":     simple(func(s string) (string, error) { return strings.ToUpper(s), nil }),
		"lower":     simple(func(s string) (string, error) { return strings.ToLower(s), nil }),
		"base64":    simple(func(s string) (string, error) { return base64.StdEncoding.EncodeToString([]byte(s)), nil }),
		"urlquery":  escaping(encoded, func(s string) (string, error) { return percentEncode(s), nil }),
		"json":      jsonFilter,
		"default":   defaultFilter,
		"unix":      clockFilter(time.Time.Unix),
		"unixMilli": clockFilter(time.Time.UnixMilli),
		"date":      dateFilter,
	}
}

func filterNames() string {
	return strings.Join(slices.Sorted(maps.Keys(recipes())), ", ")
}

// makeFilter returns a filter by its name. fault describes the error and the right form.
func makeFilter(name string, args []token, of kind) (f filter, fault string) {
	build, known := recipes()[name]
	if !known {
		return filter{}, fmt.Sprintf("there is no filter %s; there are %s", quote(name), filterNames())
	}
	f, err := build(args, of)
	if err != nil {
		return filter{}, name + " " + err.Error()
	}
	f.name = name
	return f, ""
}

var errNoArguments = errors.New("takes no arguments")

// simple returns a recipe for a filter from text to text.
func simple(apply func(string) (string, error)) recipe { return escaping(text, apply) }

// escaping returns a recipe for a filter from text to a given kind.
func escaping(to kind, apply func(string) (string, error)) recipe {
	return func(args []token, _ kind) (filter, error) {
		if len(args) > 0 {
			return filter{}, errNoArguments
		}
		return filter{kind: to, apply: func(v value) (value, error) {
			s, err := apply(v.String())
			return value{
				kind:  to,
				text:  s,
				known: v.known,
			}, err
		}}, nil
	}
}

// jsonFilter encodes a value as JSON. A number stays a number, and an unknown value is null.
func jsonFilter(args []token, _ kind) (filter, error) {
	if len(args) > 0 {
		return filter{}, errNoArguments
	}
	return filter{kind: rawJSON, apply: func(v value) (value, error) {
		s, err := jsonDocument(v)
		return value{
			kind:  rawJSON,
			text:  s,
			known: true,
		}, err
	}}, nil
}

// defaultFilter replaces an unknown or empty value.
func defaultFilter(args []token, of kind) (filter, error) {
	if len(args) != 1 {
		return filter{}, errors.New(`takes one argument, the value in place of one that is missing: default "none"`)
	}
	instead := value{
		kind:  text,
		text:  args[0].text,
		known: true,
	}
	if args[0].kind == tokenName {
		if n, err := strconv.ParseInt(args[0].text, 10, 64); err == nil {
			instead = numberOf(n, true)
		} else {
			return filter{}, fmt.Errorf("takes a string in quotes or a whole number, not %s", quote(args[0].text))
		}
	}
	return filter{kind: of, apply: func(v value) (value, error) {
		if v.known {
			return v, nil
		}
		return instead, nil
	}}, nil
}

// clockFilter returns a recipe for a filter from an instant to a number.
func clockFilter(count func(time.Time) int64) recipe {
	return func(args []token, of kind) (filter, error) {
		if len(args) > 0 {
			return filter{}, errNoArguments
		}
		if of != instant {
			return filter{}, errNoInstant
		}
		return filter{kind: number, apply: func(v value) (value, error) {
			if v.kind != instant { // The value of a default filter.
				return v, nil
			}
			return numberOf(count(v.at), v.known), nil
		}}, nil
	}
}

var errNoInstant = errors.New("needs an instant: run.scheduledFor or last.finishedAt")

// jsonDocument returns a value as JSON.
func jsonDocument(v value) (string, error) {
	switch {
	case !v.known:
		return "null", nil
	case v.kind == number || v.kind == rawJSON:
		return v.text, nil
	}
	return jsonString(v.String())
}

// jsonString returns a text as a JSON string with quotes.
func jsonString(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", errors.New("is no text in UTF-8, which JSON needs; use base64")
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}
