package config

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// FileSuffix is appended to the name of a setting for a variable with the path of a file that holds
// the value: DATABASE_URL_FILE.
const FileSuffix = "_FILE"

// maxFile is larger than any setting, in bytes. It keeps a path such as /dev/zero from filling the
// memory.
const maxFile = 1 << 20

// variable is the value of a setting in the environment.
type variable struct {
	// name is as in the environment, possibly with FileSuffix.
	name  string
	value string
}

// environment is a parsed environment.
type environment struct {
	// given holds the values, by name of the setting.
	given map[string]variable
	// broken holds the settings that have no value because of a problem.
	broken map[string]bool
	// unknown lists names with Rubato's prefix that are no setting.
	unknown  []string
	problems []string
}

// readEnvironment parses an environment and reads the files that it names.
func readEnvironment(environ []string) environment {
	e := environment{
		given:  map[string]variable{},
		broken: map[string]bool{},
	}
	values, files, unknown := split(environ)
	e.unknown = unknown
	for _, s := range settings() {
		value, path := values[s.Name], files[s.Name]
		name := s.Name + FileSuffix
		switch {
		case value != "" && path != "":
			e.refuse(s.Name, fmt.Sprintf("%s and %s are both set: set one of them", s.Name, name))
		case value != "":
			e.given[s.Name] = variable{
				name:  s.Name,
				value: value,
			}
		case path != "":
			text, err := readValue(path)
			if err != nil {
				e.refuse(s.Name, fmt.Sprintf("%s: %s", name, err))
				continue
			}
			e.given[s.Name] = variable{
				name:  name,
				value: text,
			}
		}
	}
	return e
}

func (e *environment) refuse(setting, problem string) {
	e.broken[setting] = true
	e.problems = append(e.problems, problem)
}

// split returns the values by name of the setting, the paths of files by name of the setting, and
// the unknown names with Rubato's prefix. An empty value counts as not set.
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

// readValue returns the content of a file without one trailing line break, because editors and echo
// add it.
func readValue(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }()
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

// Source returns the origin of a setting's value: "environment", "file " and its path, or
// "default".
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
