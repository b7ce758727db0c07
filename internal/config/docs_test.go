package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of settings into docs/configuration.md")

const (
	docsFile   = "../../docs/configuration.md"
	tableBegin = "<!-- settings: written by go test ./internal/config -update -->\n"
	tableEnd   = "<!-- end of settings -->\n"
)

// The table in the documentation is the list of accepted settings.
func TestDocumentationListsExactlyTheSettings(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(docsFile)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(page), tableBegin)
	require.True(t, found, "the page has no table")
	table, tail, found := strings.Cut(rest, tableEnd)
	require.True(t, found, "the table has no end")

	if *update {
		require.NoError(t, os.WriteFile(docsFile, []byte(head+tableBegin+settingsTable()+tableEnd+tail), 0o644))
		return
	}
	require.Empty(t, cmp.Diff(settingsTable(), table), "run go test ./internal/config -update")
}

func settingsTable() string {
	var b strings.Builder
	b.WriteString("| name | default | meaning |\n|---|---|---|\n")
	for _, s := range Settings() {
		def := ""
		if s.Default != "" {
			def = "`" + s.Default + "`"
		}
		doc := s.Doc
		if s.Secret {
			doc += " (secret: never shown)"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, def, doc)
	}
	b.WriteString("\nEach setting may be read from a file. Append `_FILE` to the name and set the variable to the path:\n\n")
	for i, s := range Settings() {
		end := ",\n"
		if i == len(Settings())-1 {
			end = ".\n"
		}
		b.WriteString("`" + s.Name + FileSuffix + "`" + end)
	}
	return b.String()
}

// Every name that the page uses is one that is accepted; only its example of a complaint, a fenced
// block, holds mistakes.
func TestDocumentationNamesNoOtherSetting(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(docsFile)
	require.NoError(t, err)
	known := map[string]bool{}
	for _, s := range Settings() {
		known[s.Name], known[s.Name+FileSuffix] = true, true
	}
	var prose strings.Builder
	for i, part := range strings.Split(string(page), "```") {
		if i%2 == 0 {
			prose.WriteString(part)
		}
	}
	for word := range strings.FieldsFuncSeq(prose.String(), func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) {
		if strings.HasPrefix(word, prefix) && word != prefix {
			require.True(t, known[word], "%s is documented but not accepted", word)
		}
	}
}
