package chains

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rubato/internal/budget"
	"rubato/internal/errs"
	"rubato/internal/jsonpath"
	"rubato/internal/template"
)

// values returns the values that the templates of a step or an element may use.
func (a *advance) values(of *Step) map[string]any {
	values := map[string]any{"input": a.run.Input, "steps": a.stepValues()}
	if of != nil && of.Index != Whole {
		values["item"] = of.Item
	}
	if of != nil && of.Output != nil {
		values["output"] = of.Output
	}
	return values
}

// stepValues returns status and output of each step. An output of a step with forEach is the list
// of those of its elements.
func (a *advance) stepValues() map[string]any {
	if a.known != nil {
		return a.known
	}
	values := map[string]any{}
	for _, s := range a.run.Plan.steps {
		whole := a.steps[Key{s.Name, Whole}]
		output := whole.Output
		if s.forEach != nil && whole.Status.Over() {
			output = map[string]any{}
			for name := range s.Outputs {
				list := make([]any, 0, len(a.elements[s.Name]))
				for _, e := range a.elements[s.Name] {
					list = append(list, e.Output[name])
				}
				output[name] = list
			}
		}
		values[s.Name] = map[string]any{"status": string(whole.Status), "output": output}
	}
	a.known = values
	return values
}

// lookup returns the value at a path; nil: there is none.
func (a *advance) lookup(path []string, of *Step) any { return template.Lookup(a.values(of), path) }

// conditionValues returns the values of the condition of a step, with numbers as CEL knows them. It
// knows the steps that ended before this one.
func (a *advance) conditionValues(s *step) map[string]any {
	steps := maps.Clone(a.stepValues())
	maps.DeleteFunc(steps, func(name string, _ any) bool { return !s.before[name] })
	return map[string]any{"input": jsonpath.Plain(a.run.Input), "steps": jsonpath.Plain(steps)}
}

// Outputs returns the outputs of a step by its answer, as JSON that the database stores. why says
// that they cannot be read; empty: they can. A path that selects nothing is null, and one that
// selects several values gives the first one.
func (p *Plan) Outputs(of Key, body []byte) (output json.RawMessage, why string) {
	s := p.step(of.Name)
	if len(s.outputs) == 0 {
		return json.RawMessage("{}"), ""
	}
	limit, spend := MaxOutput, budget.New(nil)
	if of.Index != Whole {
		limit = MaxItemOutput
	}
	doc, err := jsonpath.Read(body, spend)
	if err != nil {
		return nil, "the answer cannot be read as JSON: " + err.Error()
	}
	values := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.outputs)) {
		values[name] = nil
		err := s.outputs[name].Each(doc, spend, func(v any) bool {
			values[name] = v
			return false
		})
		if err != nil {
			return nil, "outputs." + name + " cannot be read: " + err.Error()
		}
	}
	output, err = encodeStorable(values)
	switch {
	case err != nil:
		return nil, "the outputs cannot be written: " + err.Error()
	case len(output) > limit:
		return nil, fmt.Sprintf("the outputs are longer than %d bytes", limit)
	default:
		return output, ""
	}
}

// Compensated reports whether a step has a compensation.
func (p *Plan) Compensated(name string) bool {
	return p.OnFailure == Compensate && p.step(name).compensation != nil
}

// ReadInput returns the input of a run with the defaults of the chain, as JSON that the database
// stores, or an [errs.Invalid] that names each bad value.
func (p *Plan) ReadInput(given json.RawMessage) (json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	if len(given) > MaxInput || len(given) > 0 && json.Unmarshal(given, &values) != nil {
		return nil, errs.InvalidFields([]errs.Field{{
			Field:   "input",
			Code:    "invalid_value",
			Message: fmt.Sprintf("must be a JSON object of at most %d bytes", MaxInput),
		}})
	}
	var bad []errs.Field
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, declared := p.Inputs[name]; !declared {
			bad = append(bad, errs.Field{
				Field:   "input." + name,
				Code:    "unknown_field",
				Message: "is not an input of the chain; there are: " + strings.Join(slices.Sorted(maps.Keys(p.Inputs)), ", "),
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Inputs)) {
		in, value := p.Inputs[name], values[name]
		switch {
		case value != nil:
		case in.Required:
			bad = append(bad, errs.Field{
				Field:   "input." + name,
				Code:    "required",
				Message: "must be given",
			})
		case in.Default != nil:
			values[name] = in.Default
		}
	}
	if len(bad) > 0 {
		return nil, errs.InvalidFields(bad)
	}
	return p.inputOf(values)
}

// inputOf returns complete values as the input of a run. It refuses an input with which no run can
// succeed, because its lists have too many elements together.
func (p *Plan) inputOf(values map[string]json.RawMessage) (json.RawMessage, error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encoding the input of a chain: %w", err)
	}
	input, err := Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("decoding the input of a chain: %w", err)
	}
	refuse := func(code, why string) error {
		return errs.InvalidFields([]errs.Field{{
			Field:   "input",
			Code:    code,
			Message: why,
		}})
	}
	if raw, err = encodeStorable(input); err != nil {
		return nil, refuse("invalid_value", "must be "+err.Error())
	}
	elements := 0
	for _, s := range p.steps {
		if s.forEach != nil && s.when == nil {
			list, _ := template.Lookup(map[string]any{"input": input}, s.forEach).([]any)
			elements += len(list)
		}
	}
	if elements > MaxElements {
		return nil, refuse("too_many", tooManyElements(elements))
	}
	return raw, nil
}

// InputOf returns those of the values that are inputs of the chain, as JSON.
func (p *Plan) InputOf(values map[string]any) (json.RawMessage, error) {
	given := map[string]any{}
	for name, value := range values {
		if _, declared := p.Inputs[name]; declared && value != nil {
			given[name] = value
		}
	}
	return json.Marshal(given)
}

// Decode returns the value of a JSON object, with its numbers as they are written; nil if there is
// none.
func Decode(text []byte) (values map[string]any, err error) {
	if text == nil {
		return nil, nil //nolint:nilnil // No object is nil.
	}
	err = decode(text, &values)
	return values, err
}

// DecodeValue is [Decode] for any value.
func DecodeValue(text []byte) (value any, err error) {
	if text != nil {
		err = decode(text, &value)
	}
	return value, err
}

func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}
