package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"rubato/internal/planner/untrusted"
)

const (
	maxArguments = 8 << 10 // bytes of the arguments of a call
	maxReason    = 500     // bytes of a reason
	maxReasoning = 2000    // bytes of the reasoning of a submission
)

// arguments are the parsed arguments of a call, by name.
type arguments struct {
	numbers map[string]float64
	texts   map[string]string
}

// parseArguments parses the arguments of a call. The text must be one JSON object with exactly the
// tool's parameters, each once and in its range. There is no lenient mode, because guessing might
// execute a call that was not meant. The error is written for the model.
func (t tool) parseArguments(text string) (arguments, error) {
	if len(text) > maxArguments {
		return arguments{}, fmt.Errorf("the arguments have %d bytes; at most %d are read", len(text), maxArguments)
	}
	if len(t.parameters) == 0 && strings.TrimSpace(text) == "" {
		text = "{}" // some services omit empty arguments
	}
	members, err := parseObject(text)
	if err != nil {
		return arguments{}, err
	}
	read := arguments{numbers: map[string]float64{}, texts: map[string]string{}}
	for _, p := range t.parameters {
		raw, given := members[p.name]
		if !given {
			return arguments{}, fmt.Errorf("%s is missing", p.name)
		}
		delete(members, p.name)
		if err := read.parse(p, raw); err != nil {
			return arguments{}, err
		}
	}
	for name := range members {
		name, _ = untrusted.Clean(name, 40)
		return arguments{}, fmt.Errorf("there is no argument %q", name)
	}
	return read, nil
}

// parseObject returns the members of a text that is one JSON object.
func parseObject(text string) (map[string]json.RawMessage, error) {
	malformed := errors.New("the arguments are not one JSON object")
	decoder := json.NewDecoder(strings.NewReader(text))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, malformed
	}
	members := map[string]json.RawMessage{}
	for decoder.More() {
		name, err := decoder.Token()
		key, is := name.(string)
		if err != nil || !is {
			return nil, malformed
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, malformed
		}
		if _, twice := members[key]; twice {
			return nil, errors.New("an argument is given twice")
		}
		members[key] = value
	}
	if end, err := decoder.Token(); err != nil || end != json.Delim('}') {
		return nil, malformed
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, malformed
	}
	return members, nil
}

// parse parses one argument.
func (a arguments) parse(p parameter, raw json.RawMessage) error {
	if p.isText() {
		var text *string
		if err := json.Unmarshal(raw, &text); err != nil || text == nil {
			return fmt.Errorf("%s must be a text", p.name)
		}
		limit := maxReason
		if p.name == "reasoning" {
			limit = maxReasoning
		}
		clean, _ := untrusted.Clean(*text, limit)
		if strings.TrimSpace(clean) == "" {
			return fmt.Errorf("%s must not be empty", p.name)
		}
		a.texts[p.name] = clean
		return nil
	}
	var number *float64
	if err := json.Unmarshal(raw, &number); err != nil || number == nil {
		return fmt.Errorf("%s must be a number", p.name)
	}
	if !(*number >= p.low && *number <= p.high) {
		return fmt.Errorf("%s must be between %g and %g", p.name, p.low, p.high)
	}
	a.numbers[p.name] = *number
	return nil
}

// seconds returns a number of seconds as a duration, to the millisecond. The ranges of the
// parameters exclude overflow.
func (a arguments) seconds(name string) time.Duration {
	return time.Duration(math.Round(a.numbers[name]*1000)) * time.Millisecond
}

func (a arguments) minutes(name string) time.Duration {
	return time.Duration(math.Round(a.numbers[name]*60_000)) * time.Millisecond
}

// recordedArguments returns a call's arguments for the session record: JSON if they are valid, else
// a JSON string. Secrets are redacted.
func recordedArguments(text string) json.RawMessage {
	const most = 2000
	clean, _ := untrusted.Clean(text[:min(len(text), 2*maxArguments)], most)
	return untrusted.Storable(clean, most)
}
