package devpg

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDefaultDir sets variables of the environment, so it does not run beside others.
func TestDefaultDir(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Setenv("HOME", "/root")
		first, err := DefaultDir()
		require.NoError(t, err)
		t.Setenv("HOME", "")
		second, err := DefaultDir()
		require.NoError(t, err)
		require.Equal(t, first, second, "root has one place, whatever its environment")
		require.Equal(t, systemDir, filepath.Dir(first))
		return
	}
	t.Setenv("HOME", "/home/someone")
	t.Setenv("XDG_DATA_HOME", "")
	dir, err := DefaultDir()
	require.NoError(t, err)
	require.Regexp(t, `^/home/someone/.+/rubato$`, dir)
	t.Setenv("XDG_DATA_HOME", "/data")
	dir, err = DefaultDir()
	require.NoError(t, err)
	require.Equal(t, "/data/rubato", dir)
}

func TestUserHomeWithoutHomeComesFromTheUserDatabase(t *testing.T) {
	t.Setenv("HOME", "/from/environment")
	dir, err := userHome()
	require.NoError(t, err)
	require.Equal(t, "/from/environment", dir)
	t.Setenv("HOME", "")
	dir, err = userHome()
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(dir), dir)
	require.NotEqual(t, "/from/environment", dir)
}

func TestCacheDirLastsAndTheServerCanEnterIt(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	first, err := CacheDir()
	require.NoError(t, err)
	second, err := CacheDir()
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.True(t, acct.canEnter(first))
	require.True(t, isOurs(first))
}

func TestIsOursRefusesDirectoriesThatOthersMayWrite(t *testing.T) {
	t.Parallel()
	base := newDir(t)
	require.NoError(t, os.Symlink(base, filepath.Join(base, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	for name, mode := range map[string]fs.FileMode{"private": 0o700, "group": 0o770, "others": 0o703} {
		require.NoError(t, os.Mkdir(filepath.Join(base, name), 0o700))
		require.NoError(t, os.Chmod(filepath.Join(base, name), mode))
	}
	for name, want := range map[string]bool{
		"private": true, "group": false, "others": false, "link": false, "file": false, "missing": false,
	} {
		require.Equal(t, want, isOurs(filepath.Join(base, name)), name)
	}
}

func TestHasRoomNeedsAFileSystem(t *testing.T) {
	t.Parallel()
	require.False(t, hasRoom(filepath.Join(newDir(t), "missing")))
}
