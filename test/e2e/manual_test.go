package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheManualsCommandsExist requires that every command in the operations manual exists, with its
// flags.
func TestTheManualsCommandsExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	commands := regexp.MustCompile("(?m)(?:^\\s*|`|xargs -n1 )(rubato (?:[a-z][a-z-]*)[^`|\n#]*)").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(commands), 20)
	for _, command := range commands {
		words := strings.Fields(command[1])[1:]
		var path []string
		for _, word := range words {
			if !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(word) {
				break
			}
			path = append(path, word)
		}
		help := helpOf(t, path)
		for _, flag := range regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(command[1], -1) {
			require.Contains(t, help, flag, "%s", command[1])
		}
	}
}

// helpOf returns the help of a command. It drops trailing words of path one by one, because they
// may be arguments.
func helpOf(t *testing.T, path []string) string {
	t.Helper()
	for n := len(path); n > 0; n-- {
		out, err := exec.CommandContext(t.Context(), filepath.Join(binaries, "rubato"), append(path[:n:n], "--help")...).CombinedOutput()
		if usage, _, _ := strings.Cut(string(out), "\n"); err == nil && (n == len(path) || !strings.Contains(usage, "<command>")) {
			return string(out)
		}
	}
	require.Fail(t, "no such command", "rubato %s", strings.Join(path, " "))
	return ""
}
