package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Names are the names that a chain declares for the request of a step. A nil value declares none.
type Names struct {
	// Input holds the inputs of the chain.
	Input []string
	// Steps holds the outputs of each step whose answer is there before this one starts.
	Steps map[string][]string
	// Item declares item, the element of forEach.
	Item bool
	// Output holds the outputs of the step itself; only its compensation knows them.
	Output []string
}

// begins reports whether a name is the first part of a value of the chain.
func (n *Names) begins(name string) bool { return n != nil && slices.Contains(n.roots(), name) }

// roots returns the first parts of the values that are declared.
func (n *Names) roots() []string {
	roots := []string{"input", "steps"}
	if n.Item {
		roots = append(roots, "item")
	}
	if n.Output != nil {
		roots = append(roots, "output")
	}
	return roots
}

// Check returns why a path names no value of the chain; empty: it does. Parts below a declared name
// are members of its JSON, which are not checked.
func (n *Names) Check(path []string) string {
	var declared []string
	var part string
	switch {
	case path[0] == "item":
		return ""
	case path[0] == "input" && len(path) > 1:
		declared, part = n.Input, path[1]
	case path[0] == "output" && len(path) > 1:
		declared, part = n.Output, path[1]
	case path[0] == "steps" && len(path) > 3 && path[2] == "output":
		outputs, known := n.Steps[path[1]]
		if !known {
			return fmt.Sprintf("step %s is not one that this step comes after; add it to after", quote(path[1]))
		}
		declared, part = outputs, path[3]
	default:
		return "is not a value of a chain; write " + n.forms()
	}
	if slices.Contains(declared, part) {
		return ""
	}
	if len(declared) == 0 {
		return quote(part) + " is not declared, and nothing else is"
	}
	return fmt.Sprintf("%s is not declared; there are %s", quote(part), strings.Join(slices.Sorted(slices.Values(declared)), ", "))
}

// forms lists the forms of the values of a chain, for error messages.
func (n *Names) forms() string {
	list := []string{"input.NAME", "steps.STEP.output.NAME"}
	if n.Item {
		list = append(list, "item")
	}
	if n.Output != nil {
		list = append(list, "output.NAME")
	}
	return strings.Join(list, ", ")
}

// known lists the vocabulary of a text for error messages.
func (p *parser) known() string {
	if p.options.Chain == nil {
		return known()
	}
	return p.options.Chain.forms() + ", " + known()
}

// chained makes an action of a value of the chain, and reports whether it is declared.
func (p *parser) chained(a *action, first token, path []string) bool {
	a.name, a.chain = strings.Join(path, "."), true
	if why := p.options.Chain.Check(path); why != "" {
		p.fault(first.at, "%s: %s", a.name, why)
		return false
	}
	a.value = func(v *Values) (value, error) { return jsonValue(Lookup(v.Chain, path)) }
	return true
}

// Lookup returns the value at a path of members; nil: there is none.
func Lookup(root any, path []string) any {
	for _, name := range path {
		members, is := root.(map[string]any)
		if !is {
			return nil
		}
		root = members[name]
	}
	return root
}

// jsonValue returns a value of JSON. Null is unknown.
func jsonValue(v any) (value, error) {
	switch v := v.(type) {
	case nil:
		return value{kind: rawJSON}, nil
	case string:
		return value{
			kind:  text,
			text:  v,
			known: true,
		}, nil
	case json.Number:
		return value{
			kind:  number,
			text:  v.String(),
			known: true,
		}, nil
	}
	encoded, err := json.Marshal(v)
	return value{
		kind:  rawJSON,
		text:  string(encoded),
		known: true,
	}, err
}

var errMissing = errors.New(`is missing; give a default if it may be: {{... | default ""}}`)

// Fill fills in the values of a chain, and returns a text that is a template for the other values.
// A brace in a value is written so that the text that it becomes part of cannot begin an action. A
// missing value without a default is null as a value of JSON, and an error elsewhere. The text is
// at most limit bytes long.
func (t *Template) Fill(values map[string]any, limit int) (string, error) {
	v := &Values{Chain: values}
	var out strings.Builder
	for _, p := range t.parts {
		out.WriteString(p.literal)
		if p.action == nil {
			break
		}
		written := p.action.source
		if p.action.chain {
			var err error
			if written, err = t.filled(p, v); err != nil {
				return "", p.action.fail(err)
			}
		}
		out.WriteString(written)
		if out.Len() > limit {
			return "", p.action.fail(fmt.Errorf("makes the text longer than %d bytes", limit))
		}
	}
	if t.guarded && traverses(out.String()) {
		return "", errors.New("a value makes a part of the path . or .., which servers take for another path")
	}
	return out.String(), nil
}

// filled returns the text that replaces an action of the chain.
func (t *Template) filled(p part, v *Values) (string, error) {
	got, err := p.action.evaluate(v)
	if err != nil {
		return "", err
	}
	if asJSON := t.field == JSON && p.within != inString; !got.known && !p.action.defaulted && !asJSON {
		return "", errMissing
	}
	written, err := t.written(p, v)
	if err != nil {
		return "", err
	}
	switch {
	case t.field == JSON && p.within == inString:
		return strings.ReplaceAll(written, "{", `\u007b`), nil
	case t.field == JSON: // Two braces in a row stand inside a string only.
		return strings.ReplaceAll(written, Open, `{\u007b`), nil
	case t.field == XML:
		return strings.ReplaceAll(written, "{", "&#123;"), nil
	default: // A URL or form has none, because values are percent-encoded there.
		return strings.ReplaceAll(written, "{", `{{"{"}}`), nil
	}
}
