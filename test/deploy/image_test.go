package deploy

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/stretchr/testify/require"
)

// instruction is an instruction of the Dockerfile.
type instruction struct {
	stage string   // the base image of its stage
	name  string   // in capitals
	text  string   // the arguments, with lines joined
	words []string // of text
}

// instructions returns the instructions of the Dockerfile.
func instructions(t *testing.T) []instruction {
	t.Helper()
	var list []instruction
	var stage string
	joined := strings.ReplaceAll(string(read(t, "Dockerfile")), "\\\n", "")
	for line := range strings.Lines(joined) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		words := strings.Fields(text)
		if name == "FROM" {
			stage = words[0]
		}
		list = append(list, instruction{stage: stage, name: name, text: text, words: words})
	}
	return list
}

// copyContext copies the build context of Docker: every file of the repository except those in
// .dockerignore.
func copyContext(t *testing.T, to string) {
	t.Helper()
	ignore, err := os.Open(filepath.Join(root, ".dockerignore"))
	require.NoError(t, err)
	defer func() { require.NoError(t, ignore.Close()) }()
	patterns, err := ignorefile.ReadAll(ignore)
	require.NoError(t, err)
	matcher, err := patternmatcher.New(patterns)
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		ignored := false
		if name != "." {
			ignored, err = matcher.MatchesOrParentMatches(name)
			require.NoError(t, err)
		}
		switch {
		case entry.IsDir() && ignored && !matcher.Exclusions():
			return fs.SkipDir
		case ignored || !entry.Type().IsRegular() && !entry.IsDir():
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return os.WriteFile(filepath.Join(to, name), text, 0o644)
	}))
}

// builder runs the instructions of a stage in a directory, in place of a container.
type builder struct {
	context string // the build context
	image   string // stands for the root of the image
	workdir string
	args    map[string]string // values of ARG that the caller gives
	env     []string
}

func (b *builder) run(t *testing.T, in instruction) {
	t.Helper()
	switch in.name {
	case "FROM":
	case "WORKDIR":
		b.workdir = filepath.Join(b.image, in.text)
		require.NoError(t, os.MkdirAll(b.workdir, 0o755))
	case "ARG":
		name, value, _ := strings.Cut(in.text, "=")
		if given, found := b.args[name]; found {
			value = given
		}
		b.env = append(b.env, name+"="+value)
	case "ENV":
		b.env = append(b.env, in.words...)
	case "COPY":
		for _, source := range in.words[:len(in.words)-1] {
			b.add(t, source)
		}
	case "RUN":
		if in.words[0] == "apk" { // The test does not install packages of the base image.
			return
		}
		b.sh(t, in.text)
	default:
		t.Fatalf("the build stage has an instruction that this test cannot carry out: %s", in.name)
	}
}

// add copies a file or all of the context into the working directory.
func (b *builder) add(t *testing.T, source string) {
	t.Helper()
	if source == "." {
		require.NoError(t, os.RemoveAll(b.workdir)) // os.CopyFS overwrites nothing.
		require.NoError(t, os.CopyFS(b.workdir, os.DirFS(b.context)))
		return
	}
	text, err := os.ReadFile(filepath.Join(b.context, source))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(b.workdir, source), text, 0o644))
}

// sh runs a command in the working directory. /out of the image is a directory of this test.
func (b *builder) sh(t *testing.T, command string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, " /out/", " "+filepath.Join(b.image, "out")+"/"))
	cmd.Dir = b.workdir
	cmd.Env = append(os.Environ(), b.env...)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "RUN %s:\n%s", command, output)
}

// TestImageIsBuiltFromItsContext runs the build stage of the Dockerfile on the build context and
// asks the built program for its version.
func TestImageIsBuiltFromItsContext(t *testing.T) {
	t.Parallel()
	const version, commit = "v9.8.7", "0123456789abcdef0123456789abcdef01234567"
	b := &builder{context: t.TempDir(), image: t.TempDir(), args: map[string]string{"VERSION": version, "COMMIT": commit}}
	copyContext(t, b.context)

	for _, in := range instructions(t) {
		switch {
		case in.stage != "scratch":
			b.run(t, in)
		case in.name == "COPY" && in.words[0] != "--from=build":
			for _, source := range in.words[:len(in.words)-1] {
				require.FileExists(t, filepath.Join(b.context, source))
			}
		case in.name == "COPY" && strings.HasPrefix(in.words[1], "/out/"):
			require.FileExists(t, filepath.Join(b.image, in.words[1]))
		}
	}

	out, err := exec.CommandContext(t.Context(), filepath.Join(b.image, "out/rubato"), "version", "-o", "json").Output()
	require.NoError(t, err)
	var told map[string]string
	require.NoError(t, json.Unmarshal(out, &told))
	require.Equal(t, version, told["version"])
	require.Equal(t, commit, told["commit"])
	for _, daemon := range []string{"api", "scheduler-worker", "planner"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(b.image, "out", daemon), "--version").CombinedOutput()
		require.NoError(t, err)
		require.Equal(t, version+"\n", string(out))
	}
}

// TestImageLabelsNameVersionAndSource checks the labels that registries and scanners read.
func TestImageLabelsNameVersionAndSource(t *testing.T) {
	t.Parallel()
	var labels string
	given := map[string]bool{}
	for _, in := range instructions(t) {
		if in.stage == "scratch" && in.name == "LABEL" {
			labels += in.text + " "
		}
		if in.stage == "scratch" && in.name == "ARG" {
			given[strings.TrimSuffix(in.text, "=")] = true
		}
	}
	for _, label := range []string{
		`org.opencontainers.image.version="${VERSION}"`, `org.opencontainers.image.revision="${COMMIT}"`,
		`org.opencontainers.image.licenses="Apache-2.0"`, `org.opencontainers.image.title=`,
	} {
		require.Contains(t, labels, label)
	}
	for name, s := range readCompose(t).Services {
		if !s.ours() {
			continue
		}
		require.Equal(t, "${VERSION:-}", s.Build.Args["VERSION"], name)
		require.Equal(t, "${COMMIT:-}", s.Build.Args["COMMIT"], name)
		for arg := range s.Build.Args {
			require.True(t, given[arg], "%s: the Dockerfile has no ARG %s", name, arg)
		}
	}
}
