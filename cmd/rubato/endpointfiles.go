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

// endpointFile is an endpoint as a file describes it.
type endpointFile struct {
	file   string
	number int            // of the file
	line   int            // where it begins
	lines  map[string]int // where each of its fields stands, by the path that complaints name it by
	key    string
	spec   json.RawMessage // one line
}

// fileFault is something that is wrong in a file.
type fileFault struct {
	file int // its number
	line int
	text string
}

// faultError returns an error that names faults in the order of the files; nil where there are none.
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

// where says where the endpoint is described.
func (e endpointFile) where() string { return fmt.Sprintf("%s:%d (%s)", e.file, e.line, e.key) }

// fault words why the server refuses the endpoint, each field with its line.
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

// lineOf returns the line of a field, or of what it would be in where it is not given.
func (e endpointFile) lineOf(field string) int {
	for field != "" {
		if line, known := e.lines[field]; known {
			return line
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return e.line
}

// readEndpoints reads the endpoints of a file, of the files of a folder, or of the input. Each needs a key of its own. Faults are those
// that the files show by themselves; what has none of them but a key that is given twice is among the endpoints.
func (s *session) readEndpoints(name string) (all []endpointFile, faults []fileFault, err error) {
	names := []string{name}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		if names, err = endpointFilesIn(name); err != nil {
			return nil, nil, err
		}
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

// endpointFilesIn returns the files of a folder that may describe endpoints, by name. Folders in it are passed over.
func endpointFilesIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder) // In the order of their names.
	if err != nil {
		return nil, usageError{fmt.Sprintf("reading the folder: %s", err)}
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			names = append(names, filepath.Join(folder, entry.Name()))
		}
	}
	return names, nil
}
