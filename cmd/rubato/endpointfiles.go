package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

// endpointFile is an endpoint as a file describes it.
type endpointFile struct {
	where string // file and document
	key   string
	spec  json.RawMessage // one line
}

// readEndpoints reads the endpoints of a file, of the files of a folder, or of the input. Each needs a key of its own.
func (s *session) readEndpoints(name string) ([]endpointFile, error) {
	names := []string{name}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		if names, err = endpointFilesIn(name); err != nil {
			return nil, err
		}
	}
	var all []endpointFile
	for _, name := range names {
		text, err := s.readFile(name)
		if err != nil {
			return nil, err
		}
		list, err := parseEndpoints(name, text)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	seen := map[string]string{}
	for _, e := range all {
		if other, twice := seen[e.key]; twice {
			return nil, usageError{fmt.Sprintf("%s: the key %s is that of %s too", e.where, e.key, other)}
		}
		seen[e.key] = e.where
	}
	if len(all) == 0 {
		return nil, usageError{name + " describes no endpoint"}
	}
	return all, nil
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

// parseEndpoints reads the documents of a text: each is an endpoint or a list of endpoints. JSON is YAML.
func parseEndpoints(name string, text []byte) ([]endpointFile, error) {
	var all []endpointFile
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for n := 1; ; n++ {
		var document any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, usageError{fmt.Sprintf("%s: %s", name, err)}
		}
		where := fmt.Sprintf("%s, document %d", name, n)
		list, many := document.([]any)
		if !many {
			list = []any{document}
		}
		for _, one := range list {
			if one == nil { // What is between two separators.
				continue
			}
			e, err := parseEndpoint(where, one)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
	}
}

func parseEndpoint(where string, one any) (endpointFile, error) {
	object, is := one.(map[string]any)
	if !is {
		return endpointFile{}, usageError{where + ": an endpoint is an object"}
	}
	key, _ := object["key"].(string)
	if key == "" {
		return endpointFile{}, usageError{where + ": key: must be given, or the endpoint would be created again each time"}
	}
	spec, err := json.Marshal(object)
	if err != nil {
		return endpointFile{}, usageError{fmt.Sprintf("%s: %s", where, err)}
	}
	return endpointFile{where: where + " (" + key + ")", key: key, spec: spec}, nil
}
