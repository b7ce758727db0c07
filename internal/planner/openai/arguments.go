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

// arguments are those of a call that was read.
type arguments struct {
	numbers map[string]float64
	texts   map[string]string
}

// read returns the arguments that a text holds, or an error in words for the model. The text must be one JSON object with exactly the
// parameters, each once and within its range: what is nearly right is wrong, for a call that was not meant is not to be guessed at.
func (t tool) parseArguments(text string) (arguments, error) {
	if len(text) > maxArguments {
		return arguments{}, fmt.Errorf("the arguments have %d bytes; at most %d are read", len(text), maxArguments)
	}
	if len(t.parameters) == 0 && strings.TrimSpace(text) == "" {
		text = "{}" // Some services leave out what is empty.
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

// object returns the members of the one JSON object that a text holds.
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

// take reads one argument.
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

// seconds and minutes return a number as a duration, to the millisecond. The ranges of parameters keep it far from overflow.
func (a arguments) seconds(name string) time.Duration {
	return time.Duration(math.Round(a.numbers[name]*1000)) * time.Millisecond
}

func (a arguments) minutes(name string) time.Duration {
	return time.Duration(math.Round(a.numbers[name]*60_000)) * time.Millisecond
}

// recorded returns the arguments of a call as the session keeps them: as JSON where they are, else a text of them, without secrets.
func recordedArguments(text string) json.RawMessage {
	const most = 2000
	clean, _ := untrusted.Clean(text[:min(len(text), 2*maxArguments)], most)
	return untrusted.Storable(clean, most)
}
