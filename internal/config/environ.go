package config

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// FileSuffix makes the name of a setting that of a variable with the path of a file, which holds the value: DATABASE_URL_FILE.
const FileSuffix = "_FILE"

// maxFile is more than any setting needs. It keeps a path such as /dev/zero from filling the memory.
const maxFile = 1 << 20

// variable is a value that the environment gives to a setting.
type variable struct {
	name  string // as the environment has it: that of the setting, or with FileSuffix
	value string
}

// environment is what an environment says to Rubato.
type environment struct {
	given    map[string]variable // by the name of the setting
	broken   map[string]bool     // settings that have no value because of a problem
	unknown  []string            // names that look like ours and are none
	problems []string
}

// readEnvironment reads the settings that an environment gives, and the files that it names.
func readEnvironment(environ []string) environment {
	e := environment{given: map[string]variable{}, broken: map[string]bool{}}
	values, files, unknown := split(environ)
	e.unknown = unknown
	for _, s := range settings() {
		value, path := values[s.Name], files[s.Name]
		name := s.Name + FileSuffix
		switch {
		case value != "" && path != "":
			e.refuse(s.Name, fmt.Sprintf("%s and %s are both set: set one of them", s.Name, name))
		case value != "":
			e.given[s.Name] = variable{name: s.Name, value: value}
		case path != "":
			text, err := readValue(path)
			if err != nil {
				e.refuse(s.Name, fmt.Sprintf("%s: %s", name, err))
				continue
			}
			e.given[s.Name] = variable{name: name, value: text}
		}
	}
	return e
}

func (e *environment) refuse(setting, problem string) {
	e.broken[setting] = true
	e.problems = append(e.problems, problem)
}

// split returns the values that an environment gives by the names of settings, the paths of files, and the names in it that look like ours
// and are none. An empty value counts as not set.
func split(environ []string) (values, files map[string]string, unknown []string) {
	values, files = map[string]string{}, map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		setting, file := strings.CutSuffix(name, FileSuffix)
		switch {
		case isSetting(name):
			values[name] = value
		case file && isSetting(setting):
			files[setting] = value
		case strings.HasPrefix(name, prefix):
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return values, files, unknown
}

func isSetting(name string) bool {
	return slices.ContainsFunc(settings(), func(s Setting) bool { return s.Name == name })
}

// readValue returns the content of a file without the line break at its end, which editors and echo leave there.
func readValue(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // It was only read.
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot be read: %w", err)
	case len(text) > maxFile:
		return "", fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if value == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, nil
}

// Source returns where the value of a setting comes from: "environment", "file " and its path, or "default".
func Source(environ []string, setting string) string {
	values, files, _ := split(environ)
	switch {
	case values[setting] != "":
		return "environment"
	case files[setting] != "":
		return "file " + files[setting]
	default:
		return "default"
	}
}
