package devpg

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServerAccountIsNeverRoot(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	require.NotZero(t, acct.uid)
	require.Equal(t, os.Geteuid() == 0, acct.drop)
	require.True(t, acct.procAttr().Setpgid)
	require.Equal(t, acct.drop, acct.procAttr().Credential != nil)
}

func TestNewAccountRefusesNamesForNumbers(t *testing.T) {
	t.Parallel()
	_, err := newAccount(&user.User{Username: "x", Uid: "S-1-5", Gid: "1"})
	require.ErrorContains(t, err, "reading the user id of x")
	_, err = newAccount(&user.User{Username: "x", Uid: "1", Gid: "-1"})
	require.ErrorContains(t, err, "reading the group id of x")
}

func TestCanEnterChecksTheModeOfEveryParent(t *testing.T) {
	t.Parallel()
	base := newDir(t)
	require.NoError(t, os.Chmod(base, 0o711))
	middle := filepath.Join(base, "middle")
	leaf := filepath.Join(middle, "leaf")
	require.NoError(t, os.MkdirAll(leaf, 0o755))
	link := filepath.Join(base, "link")
	require.NoError(t, os.Symlink(leaf, link))
	file := filepath.Join(leaf, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o777))
	me := account{uid: uint32(os.Geteuid()), gid: groupOf(t, middle), drop: true}
	groupMember := account{uid: me.uid + 1, gid: me.gid, drop: true}
	stranger := account{uid: me.uid + 1, gid: me.gid + 1, drop: true}
	for _, tc := range []struct {
		name string
		acct account
		mode fs.FileMode
		path string
		want bool
	}{
		{name: "OwnerAllowed", acct: me, mode: 0o100, path: leaf, want: true},
		{name: "OwnerBitsCountForTheOwnerOnly", acct: me, mode: 0o677, path: leaf, want: false},
		{name: "GroupAllowed", acct: groupMember, mode: 0o710, path: leaf, want: true},
		{name: "GroupBitsCountForMembers", acct: groupMember, mode: 0o701, path: leaf, want: false},
		{name: "OthersAllowed", acct: stranger, mode: 0o711, path: leaf, want: true},
		{name: "OthersRefused", acct: stranger, mode: 0o710, path: leaf, want: false},
		{name: "LinkIsFollowed", acct: stranger, mode: 0o710, path: link, want: false},
		{name: "FileIsNoDirectory", acct: stranger, mode: 0o711, path: file, want: false},
		{name: "Missing", acct: stranger, mode: 0o711, path: leaf + "2", want: false},
		{name: "OurselvesAreNotAsked", acct: account{}, mode: 0o700, path: leaf, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.NoError(t, os.Chmod(middle, tc.mode|0o700))
			// Without root, this process could not undo it from inside.
			if tc.mode&0o100 == 0 {
				require.NoError(t, os.Chmod(middle, tc.mode))
				defer func() { require.NoError(t, os.Chmod(middle, 0o700)) }()
			}
			require.Equal(t, tc.want, tc.acct.canEnter(tc.path))
		})
	}
}

func groupOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Gid
}

// TestDirectoryThatOnlyItsUserCanEnter is about root: the server's account cannot enter what only
// root can, and the data has to go elsewhere. For other users nothing is special.
func TestDirectoryThatOnlyItsUserCanEnter(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	cfg.Dir = filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.Mkdir(cfg.Dir, 0o700))
	c := start(t, cfg)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(c.home.base)) })
	require.Equal(t, os.Geteuid() != 0, c.home.base == c.home.dir)
	put(t, c.URL(), "one")
	stop(t, c)
	again := start(t, cfg)
	require.Equal(t, "one", get(t, again.URL()))
	require.Equal(t, c.home.base, again.home.base)
	stop(t, again)

	require.NoError(t, os.RemoveAll(cfg.Dir))
	require.NoError(t, os.Mkdir(cfg.Dir, 0o700))
	fresh := start(t, cfg)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(fresh.home.base)) })
	require.Equal(t, "0", query(t, fresh.URL(), "SELECT count(*)::text FROM pg_tables WHERE tablename = 'kept'"),
		"removing the directory removes the data")
}

func TestMovedDataLastsAsLongAsItsDirectory(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	for dir, want := range map[string]string{t.TempDir(): os.TempDir(), "/root/.local/share/rubato": systemDir} {
		if !acct.drop {
			require.True(t, acct.canEnter(dir), "only root's data ever moves")
			continue
		}
		base, err := moveOut(dir, acct)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.Remove(base)) })
		require.Equal(t, filepath.Clean(want), filepath.Dir(base))
		require.True(t, acct.canEnter(base))
	}
}

func TestStartAsAnUnprivilegedUser(t *testing.T) {
	t.Parallel()
	// The test binary may be where only its maker can enter, so its copy is run.
	dir := newDir(t)
	program := filepath.Join(dir, "owner")
	copyProgram(t, program)
	cfg := Config{Dir: filepath.Join(dir, "mine")}
	require.NoError(t, os.Mkdir(cfg.Dir, 0o700))
	var attr *syscall.SysProcAttr
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		require.NoError(t, err)
		acct, err := newAccount(nobody)
		require.NoError(t, err)
		require.NoError(t, acct.own(cfg.Dir))
		attr = acct.procAttr()
	}
	o := startOwner(t, cfg, program, attr)
	url := o.ready(t)
	put(t, url, "one")
	o.kill()
	requireNothingRuns(t, cfg.Dir)
	put(t, startOwner(t, cfg, program, attr).ready(t), "two")
}

// TestExistingDataIsRunAsItsOwner also covers root: data of one account is never taken over by
// another.
func TestExistingDataIsRunAsItsOwner(t *testing.T) {
	t.Parallel()
	cfg := seeded(t)
	stop(t, start(t, cfg))
	acct, err := serverAccount()
	require.NoError(t, err)
	data := filepath.Join(cfg.Dir, "data")
	require.Equal(t, acct, acct.ownerOf(data))
	require.Equal(t, acct, acct.ownerOf(filepath.Join(cfg.Dir, "missing")))

	want := acct
	if acct.drop {
		want = account{name: fmt.Sprintf("user %d", acct.uid+1), uid: acct.uid + 1, gid: acct.gid, drop: true}
	}
	require.NoError(t, filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, want.own(path))
	}))
	require.Equal(t, want, acct.ownerOf(data))
	c := start(t, cfg)
	info, err := os.Stat(c.socket)
	require.NoError(t, err)
	require.Equal(t, want.uid, info.Sys().(*syscall.Stat_t).Uid)
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	from, err := os.Open(ourselves(t))
	require.NoError(t, err)
	defer from.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, from)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.NoError(t, os.Chmod(to, 0o755))
}

func TestMkdirTempSkipsUnusableDirectories(t *testing.T) {
	t.Parallel()
	acct := account{name: "us", uid: uint32(os.Geteuid())}
	good := newDir(t)
	long := filepath.Join(good, strings.Repeat("x", 100))
	require.NoError(t, os.Mkdir(long, 0o700))
	dir, err := acct.mkdirTemp(long, filepath.Join(good, "missing"), good)
	require.NoError(t, err)
	require.Equal(t, good, filepath.Dir(dir))
	_, err = acct.mkdirTemp(long)
	require.EqualError(t, err, "no temporary directory that us can enter")
	_, err = acct.mkdirTemp(filepath.Join(good, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestMkdirAllIgnoresTheUmask(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		drop bool
		want fs.FileMode
	}{{drop: false, want: 0o700}, {drop: true, want: 0o711}} {
		base := newDir(t)
		require.NoError(t, account{drop: tc.drop}.mkdirAll(filepath.Join(base, "a", "b")))
		for _, dir := range []string{"a", "a/b"} {
			info, err := os.Stat(filepath.Join(base, dir))
			require.NoError(t, err)
			require.Equal(t, tc.want, info.Mode().Perm())
		}
	}
}
