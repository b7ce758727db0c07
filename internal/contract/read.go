package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

const (
	specSchema = "EndpointSpec"
	// printedSchema is that of an endpoint in an answer.
	printedSchema = "Endpoint"
	schemaRef     = "#/components/schemas/"
)

// schema holds the used members of a JSON Schema.
type schema struct {
	Ref         string     `yaml:"$ref"`
	Type        types      `yaml:"type"`
	Format      string     `yaml:"format"`
	Description string     `yaml:"description"`
	Enum        []string   `yaml:"enum"`
	OneOf       []schema   `yaml:"oneOf"`
	Properties  properties `yaml:"properties"`
	Additional  any        `yaml:"additionalProperties"`
	Example     any        `yaml:"example"`
	UI          extension  `yaml:"x-ui"` //nolint:tagliatelle // Extensions of OpenAPI begin with x-.
}

// extension is x-ui. Its members are those of [Field]; composite marks a field with a form of its
// own.
type extension struct {
	Group, Label, Short, Row, When, Flag, Alias, Placeholder, Form, Separator string
	Default, Initial                                                          any
	Lines                                                                     int
	Verbatim, Quoted, Composite, Failure                                      bool
}

// types are the types of a schema: one, or a list of them.
type types []string

// UnmarshalYAML reads both forms.
func (t *types) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*t = types{n.Value}
		return nil
	}
	return n.Decode((*[]string)(t))
}

// property is a member of an object.
type property struct {
	name string
	schema
}

// properties are the members of an object, in their order.
type properties []property

// UnmarshalYAML keeps the order, which a map would lose.
func (p *properties) UnmarshalYAML(n *yaml.Node) error {
	for i := 0; i < len(n.Content); i += 2 {
		one := property{name: n.Content[i].Value}
		if err := n.Content[i+1].Decode(&one.schema); err != nil {
			return fmt.Errorf("reading %s: %w", one.name, err)
		}
		*p = append(*p, one)
	}
	return nil
}

// reader reads schemas of a contract.
type reader struct{ contract string }

// read returns the fields that the contract describes.
func read(contract string) (fields []Field) {
	r := reader{contract}
	for _, p := range r.named(specSchema).Properties {
		whole := r.resolved(p.schema)
		if p.UI.Composite || len(whole.Properties) == 0 {
			fields = append(fields, fieldOf(p.name, p.schema, whole))
			continue
		}
		for _, member := range whole.Properties {
			member.UI.Group, member.UI.Row = cmp.Or(member.UI.Group, p.UI.Group), cmp.Or(member.UI.Row, p.UI.Row)
			member.UI.When = cmp.Or(member.UI.When, p.UI.When)
			fields = append(fields, fieldOf(p.name+"."+member.name, member.schema, r.resolved(member.schema)))
		}
	}
	return fields
}

// readOnly returns the properties of a printed endpoint that its configuration does not have.
func readOnly(contract string) (names []string) {
	r := reader{contract}
	spec := r.named(specSchema).Properties
	for _, p := range r.named(printedSchema).Properties {
		if !slices.ContainsFunc(spec, func(own property) bool { return own.name == p.name }) {
			names = append(names, p.name)
		}
	}
	return names
}

// named returns a schema by its name. It is cut out of the contract before it is parsed, because
// parsing all of the contract would take as long as most commands.
func (r reader) named(name string) schema {
	_, schemas, _ := strings.Cut(r.contract, "\n  schemas:") // A response may have the name of a schema.
	_, text, found := strings.Cut(schemas, "\n    "+name+":\n")
	if !found {
		panic("the contract has no schema " + name)
	}
	var own strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "     ") { // The next schema, or the end of all.
			break
		}
		own.WriteString(line)
	}
	var s schema
	if err := yaml.Unmarshal([]byte(own.String()), &s); err != nil {
		panic(fmt.Errorf("reading the schema %s of the contract: %w", name, err))
	}
	return s
}

// resolved returns the schema that a reference, or a choice between one and null, stands for.
func (r reader) resolved(s schema) schema {
	for _, choice := range s.OneOf {
		if choice.Ref != "" {
			s.Ref = choice.Ref
		}
	}
	if s.Ref == "" {
		return s
	}
	return r.named(strings.TrimPrefix(s.Ref, schemaRef))
}

// fieldOf returns the field that a property describes; whole is the schema of its value.
func fieldOf(path string, s, whole schema) Field {
	f := Field{
		Path:        path,
		Kind:        kindOf(path, s.UI, whole),
		Help:        firstSentence(cmp.Or(s.Description, whole.Description)),
		Label:       s.UI.Label,
		Title:       cmp.Or(s.UI.Short, s.UI.Label),
		Group:       s.UI.Group,
		Row:         s.UI.Row,
		When:        s.UI.When,
		Flag:        cmp.Or(s.UI.Flag, flagName(path)),
		Alias:       s.UI.Alias,
		Placeholder: s.UI.Placeholder,
		Form:        s.UI.Form,
		Choices:     whole.Enum,
		Default:     number(s.UI.Default),
		Initial:     number(s.UI.Default),
		Separator:   s.UI.Separator,
		Rows:        cmp.Or(s.UI.Lines, 2),
		Verbatim:    s.UI.Verbatim,
		Quoted:      s.UI.Quoted,
		OnFailure:   s.UI.Failure,
	}
	if s.UI.Initial != nil {
		f.Initial = number(s.UI.Initial)
	}
	if example, is := s.Example.(string); is && f.Placeholder == "" {
		f.Placeholder = example
	}
	return f
}

// kindOf returns how a value is written.
func kindOf(path string, ui extension, whole schema) Kind {
	is := func(name string) bool { return slices.Contains(whole.Type, name) }
	switch {
	case ui.Composite:
		return Composite
	case len(whole.Enum) > 0:
		return Choice
	case is("boolean"):
		return Switch
	case is("integer") && strings.HasSuffix(path, "Ms"):
		return Length
	case is("integer"):
		return Number
	case is("array"):
		return List
	case is("object"):
		return Pairs
	case whole.Format == "date-time":
		return Instant
	case whole.Format == "uri":
		return Link
	case ui.Lines > 0:
		return Lines
	}
	return Text
}

// number returns a number as encoding/json reads it, and any other value as it is.
func number(value any) any {
	if n, is := value.(int); is {
		return float64(n)
	}
	return value
}

// flagName writes a path as flags are written: maxExecutionTimeMs as max-execution-time.
func flagName(path string) string {
	var b strings.Builder
	for _, r := range strings.TrimSuffix(path, "Ms") {
		switch {
		case r == '.':
			b.WriteByte('-')
		case unicode.IsUpper(r):
			b.WriteString("-" + string(unicode.ToLower(r)))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// firstSentence returns a description up to its first full stop.
func firstSentence(description string) string {
	first, _, more := strings.Cut(description, ". ")
	if more {
		return first + "."
	}
	return first
}
