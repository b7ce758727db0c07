package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// readFile returns the content of a file, or of standard input if name is a dash.
func (s *session) readFile(name string) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(s.stdin)
		if err != nil {
			return nil, fmt.Errorf("reading the input: %w", err)
		}
		return text, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usageError{fmt.Sprintf("reading the file: %s", err)}
	}
	return text, nil
}

// readObject returns the JSON in a file. It checks the syntax only.
func (s *session) readObject(name string) (json.RawMessage, error) {
	text, err := s.readFile(name)
	if err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, usageError{name + " does not hold one JSON object"}
	}
	return bytes.TrimSpace(text), nil
}

// objectFrom returns the request body, either from a file or from flags. It does not validate
// fields, because the server does.
func (s *session) objectFrom(what, file string, flags map[string]any) (json.RawMessage, error) {
	switch {
	case file == "":
		return json.Marshal(flags)
	case len(flags) > 0:
		return nil, usageError{"give the " + what + " by --file or by flags, not both"}
	}
	return s.readObject(file)
}
