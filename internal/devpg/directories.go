package devpg

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
)

const (
	// tempPattern is the pattern of temporary directories.
	tempPattern = "rubato-*"

	// memoryDir is a file system in memory on Linux.
	memoryDir = "/dev/shm"

	// memoryRoom is the free space that memoryDir must have, in bytes. It is enough for ten
	// concurrent clusters of tests.
	memoryRoom = 2 << 30
)

// DefaultDir returns the default data directory of `rubato dev`: the user's directory for
// application data, or a system directory for root. If HOME is not set, it reads the user database.
func DefaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return filepath.Join(systemDir, "dev"), nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "rubato"), nil
	}
	homeDir, err := userHome()
	if err != nil {
		return "", fmt.Errorf("choosing a data directory: %w", err)
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(homeDir, "Library", "Application Support", "rubato"), nil
	}
	return filepath.Join(homeDir, ".local", "share", "rubato"), nil
}

func userHome() (string, error) {
	if dir := os.Getenv("HOME"); dir != "" {
		return dir, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("looking up the home directory, because HOME is not set: %w", err)
	}
	return u.HomeDir, nil
}

// CacheDir returns a persistent directory for files that can be created again. It is created if it
// is missing, and the server's account can enter it.
func CacheDir() (string, error) {
	acct, err := serverAccount()
	if err != nil {
		return "", err
	}
	return acct.cacheDir()
}

func (a account) cacheDir() (string, error) {
	var places []string
	if a.drop {
		places = append(places, "/var/cache/rubato")
	} else if dir, err := os.UserCacheDir(); err == nil {
		places = append(places, filepath.Join(dir, "rubato"))
	}
	for _, base := range tempBases() {
		places = append(places, filepath.Join(base, "rubato-cache-"+strconv.Itoa(os.Geteuid())))
	}
	var refused []error
	for _, dir := range places {
		err := a.mkdirAll(dir)
		if err == nil && a.canEnter(dir) && isOurs(dir) {
			return dir, nil
		}
		refused = append(refused, cmp.Or(err, fmt.Errorf("%s is open to the wrong users", dir)))
	}
	return "", fmt.Errorf("no directory for cached files: %w", errors.Join(refused...))
}

// isOurs reports whether dir belongs to this user and no other user may write to it. The check is
// needed in directories where every user may create files.
func isOurs(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode()&0o022 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// MkdirTemp creates a directory for temporary data. It is in memory if there is room, because
// creating and removing the many small files of a cluster is slow on disk. Its name is short, and
// the server's account can enter it. The caller removes it.
func MkdirTemp() (string, error) {
	acct, err := serverAccount()
	if err != nil {
		return "", err
	}
	bases := tempBases()
	if hasRoom(memoryDir) {
		bases = append([]string{memoryDir}, bases...)
	}
	return acct.mkdirTemp(bases...)
}

// hasRoom reports whether dir exists and has memoryRoom bytes free.
func hasRoom(dir string) bool {
	var stat syscall.Statfs_t
	return syscall.Statfs(dir, &stat) == nil && stat.Bavail*uint64(stat.Bsize) >= memoryRoom
}

func tempBases() []string {
	return slices.Compact([]string{filepath.Clean(os.TempDir()), "/tmp", "/var/tmp"})
}
