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

// endpointYAML reads the endpoints of one file. JSON is YAML. What YAML can say and JSON cannot is a fault here; the rest is for the
// server to judge.
type endpointYAML struct {
	file      string
	number    int // of the file, counted in the order in which they are read
	endpoints []endpointFile
	faults    []fileFault
}

// read takes in the documents of a text: each is an endpoint or a list of endpoints.
func (y *endpointYAML) read(text []byte) {
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil { // Nothing after it can be read.
			y.faults = append(y.faults, fileFault{y.number, math.MaxInt, y.file + ": " + err.Error()})
			return
		}
		list := document.Content
		if list[0].Kind == yaml.SequenceNode {
			list = list[0].Content
		}
		for _, one := range list {
			if one.ShortTag() != "!!null" { // What is between two separators.
				y.endpoint(one)
			}
		}
	}
}

// endpoint takes in one endpoint.
func (y *endpointYAML) endpoint(n *yaml.Node) {
	if n = resolved(n); n.Kind != yaml.MappingNode {
		y.fault(n.Line, "", "an endpoint is an object with the fields of POST /v1/endpoints")
		return
	}
	e := endpointFile{file: y.file, number: y.number, line: n.Line, lines: map[string]int{}}
	before := len(y.faults)
	y.check(n, "", e.lines)
	e.key = y.key(n)
	if len(y.faults) > before {
		return
	}
	var object map[string]any
	err := n.Decode(&object)
	if err == nil {
		e.spec, err = json.Marshal(object)
	}
	if err != nil {
		y.fault(n.Line, "", err.Error())
		return
	}
	y.endpoints = append(y.endpoints, e)
}

// key returns the key of an endpoint.
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

// check looks for what JSON cannot say, and notes the lines of fields. What an alias repeats is checked where it stands.
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

// name checks the name of a member, and returns the path of the member.
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

// scalar checks a value that has no parts.
func (y *endpointYAML) scalar(n *yaml.Node, path string) {
	switch n.ShortTag() {
	case "!!float":
		var number float64
		if n.Decode(&number) == nil && (math.IsInf(number, 0) || math.IsNaN(number)) {
			y.fault(n.Line, path, "must be a finite number, not "+n.Value)
		}
	case "!!timestamp": // JSON has none: it is the text that stands there.
		n.Tag = "!!str"
	}
}

// fault notes what is wrong with a field, or with the whole endpoint.
func (y *endpointYAML) fault(line int, field, message string) {
	if field != "" {
		message = field + ": " + message
	}
	y.faults = append(y.faults, fileFault{y.number, line, fmt.Sprintf("%s:%d: %s", y.file, line, message)})
}

// quoted tells how to write a value that YAML does not take for text.
func quoted(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return "; write " + strconv.Quote(n.Value)
}

// resolved returns what an alias stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
