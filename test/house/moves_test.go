package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/hosts"
	"rubato/internal/runs"
)

// TestTheLegalMovesAreWritten compares the tables of docs/state-machine.md with the data in Go.
func TestTheLegalMovesAreWritten(t *testing.T) {
	t.Parallel()
	const path = "docs/state-machine.md"
	requireWritten(t, part{path: path, begin: "<!-- moves: begin -->", end: "<!-- moves: end -->"}, moveTable())
	requireWritten(t, part{path: path, begin: "<!-- statuses: begin -->", end: "<!-- statuses: end -->"}, statusTable())
	requireWritten(t, part{path: path, begin: "<!-- breakers: begin -->", end: "<!-- breakers: end -->"}, breakerTable())
}

// moveTable returns the legal moves of an endpoint and their effect on the token.
func moveTable() string {
	var b strings.Builder
	b.WriteString("| from \\ to |")
	for _, to := range runs.States() {
		fmt.Fprintf(&b, " %s |", to)
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(runs.States())+1) + "\n")
	for _, from := range runs.States() {
		fmt.Fprintf(&b, "| %s |", from)
		for _, to := range runs.States() {
			fmt.Fprintf(&b, " %s |", cell(from, to))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func cell(from, to runs.State) string {
	var tokens []string
	for _, m := range runs.Transitions() {
		if m.From != from || m.To != to {
			continue
		}
		text := "token " + string(m.Token)
		if m.Token == runs.Free {
			text = "legal"
		}
		if m.NewOwner {
			text += " by another worker"
		}
		tokens = append(tokens, text)
	}
	return strings.Join(tokens, ", ")
}

// statusTable returns the legal moves of a run.
func statusTable() string {
	var b strings.Builder
	b.WriteString("| from | to |\n| --- | --- |\n")
	for _, from := range runs.Statuses() {
		next := make([]string, len(from.Next()))
		for i, to := range from.Next() {
			next[i] = "`" + string(to) + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", from, strings.Join(next, ", "))
	}
	return b.String()
}

// breakerTable returns the legal moves of the breaker of a host.
func breakerTable() string {
	var b strings.Builder
	b.WriteString("| from | to | cause |\n| --- | --- | --- |\n")
	for _, m := range hosts.Transitions() {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", m.From, m.To, m.Cause)
	}
	return b.String()
}

var writes = regexp.MustCompile(`UPDATE schedules|INSERT INTO schedules|DELETE\s+FROM schedules`)

// TestEveryStatementThatMovesAScheduleIsDescribed checks that the document describes each statement
// that writes schedules.
func TestEveryStatementThatMovesAScheduleIsDescribed(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "state-machine.md"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join("..", "..", "internal", "store", "dbsqlc", "*.sql"))
	require.NoError(t, err)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, block := range strings.Split("\n"+string(text), "\n-- name: ")[1:] {
			name, sql, _ := strings.Cut(block, " ")
			if !writes.MatchString(sql) {
				continue
			}
			found++
			if !strings.Contains(string(manual), "`"+name+"`") {
				t.Errorf("docs/state-machine.md does not name %s of %s", name, filepath.Base(file))
			}
		}
	}
	require.Greater(t, found, 10)
}
