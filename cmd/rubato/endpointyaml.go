package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// endpointYAML parses the endpoints of one YAML file; JSON is a subset of YAML. It reports YAML
// values that JSON cannot represent as faults. All other validation is the server's.
type endpointYAML struct {
	file      string
	number    int // index of the file in read order
	endpoints []endpointFile
	faults    []fileFault
}

// read parses all documents of a text. Each is an endpoint or a list of endpoints. The lines of an
// export are read too.
func (y *endpointYAML) read(text []byte) {
	if hasLinesOfJSON(text) {
		y.readLines(text)
		return
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil { // The decoder cannot continue after a syntax error.
			y.faults = append(y.faults, fileFault{y.number, math.MaxInt, y.file + ": " + err.Error()})
			return
		}
		list := document.Content
		if list[0].Kind == yaml.SequenceNode {
			list = list[0].Content
		}
		for _, one := range list {
			if one.ShortTag() != "!!null" { // A document between two separators may be empty.
				y.endpoint(one)
			}
		}
	}
}

// hasLinesOfJSON reports whether the first two lines that are not empty begin objects, the first of
// which is complete. YAML cannot have two objects without a separator.
func hasLinesOfJSON(text []byte) bool {
	first := true
	for line := range bytes.Lines(text) {
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0:
			continue
		case line[0] != '{':
			return false
		case !first:
			return true
		case !json.Valid(line):
			return false
		}
		first = false
	}
	return false
}

// readLines parses a text with an object of JSON in each line.
func (y *endpointYAML) readLines(text []byte) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var document yaml.Node
		if !json.Valid(line) {
			y.fault(number, "", "is no JSON object; each line of the file is one")
			continue
		}
		if err := yaml.Unmarshal(line, &document); err != nil {
			y.fault(number, "", err.Error())
			continue
		}
		move(&document, number-1)
		y.endpoint(document.Content[0])
	}
}

// move adds to the line of a node and of all nodes in it.
func move(n *yaml.Node, lines int) {
	n.Line += lines
	for _, child := range n.Content {
		move(child, lines)
	}
}

// scenario parses a document that is one object: a scenario of rubato simulate. It adds faults, or
// else returns the object with the lines of its fields.
func (y *endpointYAML) scenario(text []byte) endpointFile {
	e := endpointFile{file: y.file, lines: map[string]int{}}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		y.faults = append(y.faults, fileFault{y.number, math.MaxInt, y.file + ": " + err.Error()})
		return e
	}
	if document.Kind == 0 || resolved(document.Content[0]).Kind != yaml.MappingNode {
		y.fault(1, "", "a scenario is an object with endpoints, a list as in a file of rubato endpoints apply")
		return e
	}
	n := resolved(document.Content[0])
	e.line = n.Line
	if y.check(n, "", e.lines); len(y.faults) == 0 {
		e.spec = y.object(n)
	}
	return e
}

// object returns a mapping as JSON, or adds a fault.
func (y *endpointYAML) object(n *yaml.Node) json.RawMessage {
	var object map[string]any
	err := n.Decode(&object)
	var text json.RawMessage
	if err == nil {
		text, err = json.Marshal(object)
	}
	if err != nil {
		y.fault(n.Line, "", err.Error())
	}
	return text
}

// endpoint parses one endpoint. It adds faults, or else the endpoint.
func (y *endpointYAML) endpoint(n *yaml.Node) {
	if n = resolved(n); n.Kind != yaml.MappingNode {
		y.fault(n.Line, "", "an endpoint is an object with the fields of POST /v1/endpoints")
		return
	}
	e := endpointFile{
		file:   y.file,
		number: y.number,
		line:   n.Line,
		lines:  map[string]int{},
	}
	before := len(y.faults)
	keepWritable(n)
	y.check(n, "", e.lines)
	e.key = y.key(n)
	if len(y.faults) > before {
		return
	}
	if e.spec = y.object(n); len(y.faults) > before {
		return
	}
	y.endpoints = append(y.endpoints, e)
}

// key returns the key of an endpoint. It adds a fault if the key is missing.
func (y *endpointYAML) key(n *yaml.Node) string {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value != "key" {
			continue
		}
		switch value := resolved(n.Content[i+1]); {
		case value.Value == "" && value.Kind == yaml.ScalarNode:
		case value.ShortTag() != "!!str":
			y.fault(value.Line, "key", "must be text"+quoted(value))
			return ""
		default:
			return value.Value
		}
	}
	y.fault(n.Line, "key", "must be given, otherwise each apply would create the endpoint again")
	return ""
}

// check reports values that JSON cannot represent, and records the line of each field. It does not
// follow aliases, because the anchor is checked at its own position.
func (y *endpointYAML) check(n *yaml.Node, path string, lines map[string]int) {
	lines[path] = n.Line
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			y.check(item, fmt.Sprintf("%s[%d]", path, i), lines)
		}
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			y.check(n.Content[i+1], y.name(n.Content[i], path, lines), lines)
		}
	case yaml.ScalarNode:
		y.scalar(n, path)
	case yaml.DocumentNode, yaml.AliasNode:
	}
}

// name checks the name of a field and returns the path of the field.
func (y *endpointYAML) name(n *yaml.Node, path string, lines map[string]int) string {
	n = resolved(n)
	at := n.Value
	if path != "" {
		at = path + "." + n.Value
	}
	switch tag := n.ShortTag(); {
	case n.Kind != yaml.ScalarNode:
		y.fault(n.Line, path, "the name of a field must be text, not a list or an object")
	case tag != "!!str" && tag != "!!merge":
		y.fault(n.Line, at, "the name of a field must be text"+quoted(n))
	case lines[at] != 0 && tag == "!!str":
		y.fault(n.Line, at, fmt.Sprintf("is also given on line %d; keep one", lines[at]))
	}
	return at
}

// scalar checks a scalar value.
func (y *endpointYAML) scalar(n *yaml.Node, path string) {
	switch n.ShortTag() {
	case "!!float":
		var number float64
		if n.Decode(&number) == nil && (math.IsInf(number, 0) || math.IsNaN(number)) {
			y.fault(n.Line, path, "must be a finite number, not "+n.Value)
		}
	case "!!timestamp": // JSON has no timestamps, so the value stays text.
		n.Tag = "!!str"
	}
}

// fault adds an error about a field, or about the whole endpoint if field is empty.
func (y *endpointYAML) fault(line int, field, message string) {
	if field != "" {
		message = field + ": " + message
	}
	y.faults = append(y.faults, fileFault{y.number, line, fmt.Sprintf("%s:%d: %s", y.file, line, message)})
}

// quoted returns the hint to quote a value that YAML does not parse as text.
func quoted(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return "; write " + strconv.Quote(n.Value)
}

// resolved returns the target of an alias, and any other node unchanged.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
