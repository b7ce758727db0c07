package dev

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHomeIsWhereTheUserKeepsApplicationData(t *testing.T) {
	t.Parallel()
	ada := t.TempDir()
	temporary := filepath.Join(os.TempDir(), "rubato-"+strconv.Itoa(os.Getuid()))
	for name, tc := range map[string]struct {
		environ []string
		system  string
		want    Home
	}{
		"DataHome":         {[]string{"XDG_DATA_HOME=/data", "HOME=" + ada}, "linux", Home{dir: "/data/rubato"}},
		"RelativeDataHome": {[]string{"XDG_DATA_HOME=data", "HOME=" + ada}, "linux", Home{dir: ada + "/.local/share/rubato"}},
		"HomeOnLinux":      {[]string{"HOME=" + ada}, "linux", Home{dir: ada + "/.local/share/rubato"}},
		"HomeOnDarwin":     {[]string{"HOME=" + ada}, "darwin", Home{dir: ada + "/Library/Application Support/rubato"}},
		"NoHome":           {nil, "linux", Home{dir: temporary, temporary: true}},
		"HomeThatIsNot":    {[]string{"HOME=/nonexistent"}, "linux", Home{dir: temporary, temporary: true}},
		"RelativeHome":     {[]string{"HOME=."}, "linux", Home{dir: temporary, temporary: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := findHome(tc.environ, tc.system)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.want.temporary, got.Temporary())
		})
	}
}

// The name of the temporary home is guessable, so another user of the machine may have created it.
func TestTemporaryHomeOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777))
	linked := filepath.Join(t.TempDir(), "linked")
	require.NoError(t, os.Symlink(t.TempDir(), linked))

	for _, dir := range []string{open, linked} {
		home := Home{dir: dir, temporary: true}
		_, err := home.DataDir()
		require.ErrorContains(t, err, "belongs to another user")
		require.NoError(t, writeJSON(filepath.Join(dir, runningFile), running{PID: os.Getpid(), Credentials: "/nowhere"}))
		_, err = home.FindServer()
		require.ErrorIs(t, err, ErrNoServer, "what somebody else wrote is not believed")
	}
	home := Home{dir: filepath.Join(t.TempDir(), "new"), temporary: true}
	dir, err := home.DataDir()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(home.dir, "dev"), dir)
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

func TestInvalidDataDirIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	_, err := openDataDir(filepath.Join(file, "below"))

	require.ErrorContains(t, err, "choose another with --data-dir")
}
