package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// chainFile is the definition of a chain that was read from a file.
type chainFile struct {
	file       string
	name       string
	definition json.RawMessage
}

// readChains reads the definitions of a file, of every file in a directory, or of standard input.
// Each has a name of its own; name, if given, is that of a single definition. The error names all
// definitions that cannot be read.
func (s *session) readChains(path, name string) (list []chainFile, err error) {
	files, err := filesOf(path)
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, file := range files {
		text, err := s.readFile(file)
		if err != nil {
			return nil, err
		}
		found, bad := chainsIn(file, name, text)
		list, faults = append(list, found...), append(faults, bad...)
	}
	seen := map[string]string{}
	for _, c := range list {
		if other, twice := seen[c.name]; twice {
			faults = append(faults, fmt.Sprintf("%s: name: %s is also used in %s", c.file, c.name, other))
		}
		seen[c.name] = c.file
	}
	switch {
	case len(faults) > 0:
		return nil, usageError{strings.Join(faults, "\n")}
	case len(list) == 0:
		return nil, usageError{path + " contains no chain"}
	}
	return list, nil
}

// chainsIn returns the definitions in the text of a file, and the faults of the others.
func chainsIn(file, name string, text []byte) (list []chainFile, faults []string) {
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document map[string]any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return list, faults
		}
		if err != nil { // The decoder cannot find the next document.
			return list, append(faults, fmt.Sprintf("%s is no YAML object: %s", file, err))
		}
		own, _ := document["name"].(string)
		delete(document, "name")
		if name != "" {
			own = name
		}
		raw, err := json.Marshal(document)
		switch {
		case err != nil:
			faults = append(faults, fmt.Sprintf("%s holds more than JSON can: %s", file, err))
		case own == "":
			faults = append(faults, fmt.Sprintf("%s: name: the definition names no chain; add name, or give the name as an argument", file))
		default:
			list = append(list, chainFile{file, own, raw})
		}
	}
}
