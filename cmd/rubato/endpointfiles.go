package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rubato/client"
)

// endpointFile is an endpoint read from a file.
type endpointFile struct {
	file   string
	number int // index of the file in read order
	line   int // first line of the endpoint
	// lines holds the line of each field by its path, such as "headers.Accept", because the
	// server's errors name fields by path.
	lines map[string]int
	key   string
	spec  json.RawMessage // JSON without line breaks
}

// fileFault is an error at a position in a file.
type fileFault struct {
	file int // index of the file
	line int
	text string
}

// faultError returns all faults as one error, sorted by file and line; nil if there are none.
func faultError(faults []fileFault) error {
	if len(faults) == 0 {
		return nil
	}
	slices.SortStableFunc(faults, func(a, b fileFault) int { return cmp.Or(a.file-b.file, cmp.Compare(a.line, b.line)) })
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = f.text
	}
	return usageError{strings.Join(lines, "\n")}
}

// where returns the position of the endpoint, for error messages.
func (e endpointFile) where() string { return fmt.Sprintf("%s:%d (%s)", e.file, e.line, e.key) }

// fault converts a refusal of the server, and adds the line of each refused field.
func (e endpointFile) fault(refused *client.LineError) fileFault {
	var text strings.Builder
	text.WriteString(e.where() + ": " + refused.Detail)
	if refused.Errors != nil {
		for _, f := range *refused.Errors {
			fmt.Fprintf(&text, "\n  %s:%d: %s: %s", e.file, e.lineOf(f.Field), f.Field, f.Message)
		}
	}
	return fileFault{e.number, e.line, text.String()}
}

// lineOf returns the line of a field. For a field that is missing in the file, it returns the line
// of the closest parent.
func (e endpointFile) lineOf(field string) int {
	for field != "" {
		if line, known := e.lines[field]; known {
			return line
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return e.line
}

// readEndpoints reads the endpoints of a file, of every file in a directory, or of standard input.
// Each needs a unique key. Faults are errors that are visible without the server. Endpoints with a
// duplicate key are reported as faults but are also in the result, so that the server can check
// their other fields.
func (s *session) readEndpoints(name string) (all []endpointFile, faults []fileFault, err error) {
	names, err := filesOf(name)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		text, err := s.readFile(name)
		if err != nil {
			return nil, nil, err
		}
		y := endpointYAML{file: name, number: i}
		y.read(text)
		all, faults = append(all, y.endpoints...), append(faults, y.faults...)
	}
	seen := map[string]endpointFile{}
	for _, e := range all {
		if other, twice := seen[e.key]; twice {
			line := e.lineOf("key")
			text := fmt.Sprintf("%s:%d: key: %s is also used in %s:%d", e.file, line, e.key, other.file, other.lineOf("key"))
			faults = append(faults, fileFault{e.number, line, text})
		}
		seen[e.key] = e
	}
	if len(all) == 0 && len(faults) == 0 {
		return nil, nil, usageError{name + " contains no endpoint"}
	}
	return all, faults, nil
}

// filesOf returns the name of a file as it is, and for a directory the YAML and JSON files in it,
// sorted by name. It does not descend into subdirectories.
func filesOf(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, nil //nolint:nilerr // Reading it reports what is wrong with it.
	}
	entries, err := os.ReadDir(name) // sorted by name
	if err != nil {
		return nil, usageError{fmt.Sprintf("reading the folder: %s", err)}
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			names = append(names, filepath.Join(name, entry.Name()))
		}
	}
	return names, nil
}
