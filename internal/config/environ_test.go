package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// file writes a file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestEverySettingCanBeReadFromAFile(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none")
	given := []string{"DATABASE_URL_FILE=" + file(t, "postgres://u:p@db/rubato\n")}
	for _, s := range Settings() {
		_, err := Load([]string{s.Name + "_FILE=" + missing}, Program{})
		require.ErrorContains(t, err, s.Name+"_FILE: cannot be read: open "+missing)
		if s.Default != "" {
			given = append(given, s.Name+"_FILE="+file(t, s.Default+"\n"))
		}
	}
	want, err := Load([]string{"DATABASE_URL=postgres://u:p@db/rubato"}, Program{})
	require.NoError(t, err)

	got, err := Load(given, Program{Required: []string{DatabaseURL}})

	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got))
}

func TestOneTrailingLineBreakOfAFileIsRemoved(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"key-of-the-client": "key-of-the-client", "key-of-the-client\n": "key-of-the-client", "key-of-the-client\r\n": "key-of-the-client",
	} {
		cfg, err := Load([]string{"RUBATO_API_KEY_FILE=" + file(t, text)}, Program{})
		require.NoError(t, err)
		require.Equal(t, want, cfg.Client.Key)
	}
	_, err := Load([]string{"RUBATO_API_KEY_FILE=" + file(t, "key-of-the-client\n\n")}, Program{})
	require.ErrorContains(t, err, "RUBATO_API_KEY_FILE: must be", "the second one belongs to the value")
}

func TestFilesWithoutAValueAreRefused(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none")
	for name, tc := range map[string]struct {
		environ []string
		want    string
	}{
		"BothSet": {
			[]string{"DATABASE_URL=postgres://u:hunter2@db/x", "DATABASE_URL_FILE=" + file(t, "postgres://u:hunter2@db/y")},
			"DATABASE_URL and DATABASE_URL_FILE are both set: set one of them",
		},
		"Missing":   {[]string{"DATABASE_URL_FILE=" + missing}, "DATABASE_URL_FILE: cannot be read: open " + missing + ": no such file"},
		"Folder":    {[]string{"DATABASE_URL_FILE=" + t.TempDir()}, "DATABASE_URL_FILE: cannot be read: read "},
		"Empty":     {[]string{"DATABASE_URL_FILE=" + file(t, "\n")}, " is empty"},
		"Endless":   {[]string{"DATABASE_URL_FILE=/dev/zero"}, "DATABASE_URL_FILE: /dev/zero is longer than 1048576 bytes"},
		"NotAValue": {[]string{"DATABASE_URL_FILE=" + file(t, "mysql://u:hunter2@db")}, "DATABASE_URL_FILE: must be a URL such as postgres://"},
		"Misspelt":  {[]string{"DATABASE_URL=postgres://u@db/x", "RUBATO_SLOT_FILE=x"}, "RUBATO_SLOT_FILE is not a setting; did you mean RUBATO_SLOTS_FILE?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(tc.environ, Program{Required: []string{DatabaseURL}})
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "hunter2")
			require.Equal(t, 1, strings.Count(err.Error(), "\n"), "one problem, not also that it is not set: %s", err)
		})
	}
}

func TestSourceNamesTheOriginOfAValue(t *testing.T) {
	t.Parallel()
	environ := []string{"RUBATO_SLOTS=7", "RUBATO_HORIZON=", "RUBATO_API_KEY_FILE=/run/secrets/key"}
	for name, want := range map[string]string{
		"RUBATO_SLOTS": "environment", "RUBATO_HORIZON": "default", "RUBATO_API_KEY": "file /run/secrets/key", "RUBATO_LISTEN": "default",
	} {
		require.Equal(t, want, Source(environ, name), name)
	}
}
