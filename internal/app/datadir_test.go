package app

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHomeIsWhereTheUserKeepsApplicationData(t *testing.T) {
	t.Parallel()
	temporary := filepath.Join(os.TempDir(), "rubato-"+strconv.Itoa(os.Getuid()))
	for name, tc := range map[string]struct {
		environ map[string]string
		system  string
		want    Home
	}{
		"DataHome":         {map[string]string{"XDG_DATA_HOME": "/data", "HOME": "/home/ada"}, "linux", Home{dir: "/data/rubato"}},
		"RelativeDataHome": {map[string]string{"XDG_DATA_HOME": "data", "HOME": "/home/ada"}, "linux", Home{dir: "/home/ada/.local/share/rubato"}},
		"HomeOnLinux":      {map[string]string{"HOME": "/home/ada"}, "linux", Home{dir: "/home/ada/.local/share/rubato"}},
		"HomeOnDarwin":     {map[string]string{"HOME": "/Users/ada"}, "darwin", Home{dir: "/Users/ada/Library/Application Support/rubato"}},
		"NoHome":           {nil, "linux", Home{dir: temporary, temporary: true}},
		"RelativeHome":     {map[string]string{"HOME": "."}, "linux", Home{dir: temporary, temporary: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := findHome(func(name string) string { return tc.environ[name] }, tc.system)
			require.Equal(t, tc.want, got)
			require.Equal(t, filepath.Join(tc.want.dir, "dev"), got.DataDir())
			require.Equal(t, tc.want.temporary, got.Temporary())
		})
	}
}

// Whoever shares the machine can guess the name of the temporary home and make it first.
func TestTemporaryHomeOfSomebodyElseIsRefused(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777)) //nolint:gosec // That is the point.
	linked := filepath.Join(t.TempDir(), "linked")
	require.NoError(t, os.Symlink(t.TempDir(), linked))

	for _, dir := range []string{open, linked} {
		require.ErrorContains(t, Home{dir: dir, temporary: true}.make(), "belongs to somebody else")
	}
	require.NoError(t, Home{dir: filepath.Join(t.TempDir(), "new"), temporary: true}.make())
}

func TestDataDirServesOneAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	first, err := openDataDir(path)
	require.NoError(t, err)

	_, err = openDataDir(path)
	require.ErrorContains(t, err, "the dev server of process "+strconv.Itoa(os.Getpid())+" uses "+path)
	require.ErrorContains(t, err, "--data-dir")

	first.close()
	again, err := openDataDir(path)
	require.NoError(t, err)
	again.close()
}

func TestDataDirThatCannotBeIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	_, err := openDataDir(filepath.Join(file, "below"))

	require.ErrorContains(t, err, "making the data directory")
}
