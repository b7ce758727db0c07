package deploy

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// released is the version of the newest release notes in CHANGELOG.md.
const released = "0.1.0"

// release runs tools/release with arguments and returns its output, which goes to dist.
func release(t *testing.T, dist string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "tools/release", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "DIST="+dist, "PLATFORMS="+runtime.GOOS+"/"+runtime.GOARCH+" darwin/arm64")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestReleaseRefusesBadVersions requires of each refusal that it names the cause and the remedy,
// and leaves an earlier dist unchanged.
func TestReleaseRefusesBadVersions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no version":        {want: "usage: tools/release [--dry-run] VERSION"},
		"no v":              {args: []string{"--dry-run", released}, want: "want vMAJOR.MINOR.PATCH"},
		"no release notes":  {args: []string{"--dry-run", "v99.0.0"}, want: "CHANGELOG.md has no section '## [99.0.0]'"},
		"a version too far": {args: []string{"v" + released, "v0.2.0"}, want: "usage: tools/release [--dry-run] VERSION"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dist := t.TempDir()
			kept := filepath.Join(dist, "kept")
			require.NoError(t, os.WriteFile(kept, nil, 0o600))

			out, err := release(t, dist, test.args...)
			require.Error(t, err)
			require.Contains(t, out, test.want)
			require.FileExists(t, kept)
		})
	}
}

// TestReleaseRehearsal builds a release for two systems and checks every file of it.
func TestReleaseRehearsal(t *testing.T) {
	t.Parallel()
	if os.Getenv("RUBATO_TEST_RELEASE") == "" {
		t.Skip("RUBATO_TEST_RELEASE is not set: a rehearsal builds every program twice") //nolint:forbidigo // CI runs it in a stage of its own.
	}
	dist := t.TempDir()
	out, err := release(t, dist, "--dry-run", "v"+released)
	require.NoError(t, err, out)

	host := "rubato_" + released + "_" + runtime.GOOS + "_" + runtime.GOARCH
	for _, name := range []string{host, "rubato_" + released + "_darwin_arm64"} {
		require.ElementsMatch(t,
			[]string{"LICENSE", "NOTICE", "README.md", "api", "planner", "rubato", "scheduler-worker"},
			unpack(t, filepath.Join(dist, name+".tar.gz"), filepath.Join(dist, "unpacked", name)))
	}
	version, err := exec.CommandContext(t.Context(), filepath.Join(dist, "unpacked", host, "rubato"), "version", "-o", "json").Output()
	require.NoError(t, err)
	var built map[string]string
	require.NoError(t, json.Unmarshal(version, &built))
	require.Equal(t, "v"+released, built["version"])
	require.Len(t, built["commit"], 40)

	notes, err := os.ReadFile(filepath.Join(dist, "release-notes.md"))
	require.NoError(t, err)
	require.NotEmpty(t, notes)
	require.NotContains(t, string(notes), "\n## ", "the notes of one version only")
	sbom, err := os.ReadFile(filepath.Join(dist, "rubato_"+released+"_sbom.json"))
	require.NoError(t, err)
	require.Contains(t, string(sbom), `"bomFormat": "CycloneDX"`)

	sums := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	sums.Dir = dist
	checked, err := sums.CombinedOutput()
	require.NoError(t, err, string(checked))
}

// unpack writes the files of an archive into a folder and returns their names.
func unpack(t *testing.T, archive, folder string) []string {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(folder, 0o700))
	var names []string
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		if header.Typeflag != tar.TypeReg {
			continue
		}
		names = append(names, path.Base(header.Name))
		content, err := io.ReadAll(files)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, path.Base(header.Name)), content, 0o700))
	}
}
