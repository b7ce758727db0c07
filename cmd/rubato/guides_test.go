package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"rubato/internal/app/dev"
)

const guides = "../../docs/guides"

// A block of shell in a guide is followed by its expected output: <!-- prints: pattern --> lines.
var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n((?:<!-- prints: [^\n]* -->\n)*)")
	printed    = regexp.MustCompile(`<!-- prints: (.*) -->`)
)

// TestEveryCommandOfTheGuidesWorks runs the shell of each guide, in the order of the text, against
// a server with the demo: one script for a guide, in one shell session after the other, so that a
// variable of a block is there in the next one. What their index says to do first is done first.
func TestEveryCommandOfTheGuidesWorks(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	access := startDev(t, home, newDatabase(t), true)
	before := endpointKeys(t, access)
	t.Run("guides", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: writeScripts(t), RequireExplicitExec: true, RequireUniqueNames: true,
			Setup: func(e *testscript.Env) error {
				e.Setenv("XDG_DATA_HOME", home)
				return nil
			},
		})
	})
	require.ElementsMatch(t, before, endpointKeys(t, access), "the guides delete what they create")
}

// endpointKeys returns the keys or names of all endpoints of a server.
func endpointKeys(t *testing.T, access dev.Credentials) (keys []string) {
	t.Helper()
	for query := (url.Values{"limit": {"500"}}); ; {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, access.URL+"/v1/endpoints?"+query.Encode(), http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+access.Key)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		var page struct {
			Items      []struct{ Key, Name string }
			NextCursor string
		}
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.NoError(t, json.NewDecoder(res.Body).Decode(&page))
		require.NoError(t, res.Body.Close())
		for _, e := range page.Items {
			keys = append(keys, cmp.Or(e.Key, e.Name))
		}
		if page.NextCursor == "" {
			return keys
		}
		query.Set("cursor", page.NextCursor)
	}
}

// writeScripts turns each guide into a script and returns the folder of them.
func writeScripts(t *testing.T) string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(guides, "*.md"))
	require.NoError(t, err)
	dir := t.TempDir()
	index, err := os.ReadFile(filepath.Join(guides, "README.md"))
	require.NoError(t, err)
	first := shellBlock.FindStringSubmatch(string(index))
	require.NotNil(t, first, "the index of the guides says how to find their target")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		blocks := shellBlock.FindAllStringSubmatch(string(text), -1)
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if name == "README" {
			continue
		}
		require.Equal(t, strings.Count(string(text), "```sh\n"), len(blocks), page)
		require.Equal(t, strings.Count(string(text), "<!-- prints"), len(printed.FindAllString(string(text), -1)), page)
		require.GreaterOrEqual(t, len(blocks), 3, page)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".txtar"), []byte(script(first[1], blocks)), 0o600))
	}
	return dir
}

// script returns the script of a guide. Each block runs after the setup and with the variables of
// the blocks before it.
func script(first string, blocks [][]string) string {
	var commands, files strings.Builder
	for i, block := range blocks {
		fmt.Fprintf(&commands, "# Block %d.\nexec sh -e block-%d.sh\n", i+1, i+1)
		for _, pattern := range printed.FindAllStringSubmatch(block[2], -1) {
			fmt.Fprintf(&commands, "stdout '%s'\n", strings.ReplaceAll(pattern[1], "'", "''"))
		}
		fmt.Fprintf(&files, "-- block-%d.sh --\nif [ -e variables ]; then . ./variables; fi\n%s%sprintf 'run=%%s\\n' \"$run\" > variables\n", i+1, first, block[1])
	}
	return commands.String() + files.String()
}

// TestGuidesAreListed: the README of the folder links to every guide.
func TestGuidesAreListed(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile(filepath.Join(guides, "README.md"))
	require.NoError(t, err)
	pages, err := filepath.Glob(filepath.Join(guides, "*.md"))
	require.NoError(t, err)
	require.Greater(t, len(pages), 5)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			require.Contains(t, string(index), "("+name+")")
		}
	}
}
