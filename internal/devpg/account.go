package devpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// account is the user that the server runs as.
type account struct {
	name string
	uid  uint32
	gid  uint32
	// drop is true if this process is root: it starts every child under this account.
	drop bool
}

// serverAccount returns the caller's own account, or for root the first that exists of postgres and
// nobody, because Postgres refuses to run as root.
func serverAccount() (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{
			name: "the current user",
			uid:  uint32(uid),
			gid:  uint32(os.Getegid()),
		}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return newAccount(u)
		}
	}
	return account{}, errors.New("postgres refuses to run as root, and there is no user postgres or nobody to run it as; " +
		"run this as another user, or set DATABASE_URL")
}

func newAccount(u *user.User) (account, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("reading the user id of %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("reading the group id of %s: %w", u.Username, err)
	}
	return account{
		name: u.Username,
		uid:  uint32(uid),
		gid:  uint32(gid),
		drop: true,
	}, nil
}

// ownerOf returns the account that root runs an existing data directory as: its owner, since
// Postgres takes no other.
func (a account) ownerOf(dataDir string) account {
	info, err := os.Stat(dataDir)
	if err != nil || !a.drop {
		return a
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && stat.Uid != a.uid {
		return account{
			name: fmt.Sprintf("user %d", stat.Uid),
			uid:  stat.Uid,
			gid:  stat.Gid,
			drop: true,
		}
	}
	return a
}

// procAttr puts a child into its own process group, so that Ctrl-C on the terminal does not reach
// it before this process.
func (a account) procAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.drop {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}

// own makes the account the owner of path. It does nothing unless the process is root.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// canEnter reports whether the account may enter dir and all directories above it. It reads mode
// bits only. Access granted by other means counts as none, which costs a detour and is harmless.
func (a account) canEnter(dir string) bool {
	if !a.drop {
		return true
	}
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for ; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || !a.mayExecute(info) {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
	}
}

func (a account) mayExecute(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	switch {
	case stat.Uid == a.uid:
		return info.Mode()&0o100 != 0
	case stat.Gid == a.gid:
		return info.Mode()&0o010 != 0
	default:
		return info.Mode()&0o001 != 0
	}
}

// dirMode is the mode of the directories that this package creates. The account must be able to
// enter them; other users must not be able to list them.
func (a account) dirMode() fs.FileMode {
	if a.drop {
		return 0o711
	}
	return 0o700
}

// mkdirAll creates dir and missing parents. The mode does not depend on the umask.
func (a account) mkdirAll(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := a.mkdirAll(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, a.dirMode()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, a.dirMode())
}

// mkdirTemp creates a new directory in the first of bases that the account can enter. The path must
// leave room for the name of a Unix socket, which some systems limit to 103 bytes.
func (a account) mkdirTemp(bases ...string) (string, error) {
	refused := []error{errors.New("no temporary directory that " + a.name + " can enter")}
	usable := func(base string) bool {
		return a.canEnter(base) && len(base)+len("/rubato-0123456789")+len(socketFile) <= maxSocketPath
	}
	for _, base := range slices.DeleteFunc(bases, func(b string) bool { return !usable(b) }) {
		dir, err := os.MkdirTemp(base, tempPattern)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		return dir, os.Chmod(dir, a.dirMode())
	}
	return "", errors.Join(refused...)
}
