package devpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// oldestMajor is the oldest major version with upstream support.
const oldestMajor = 15

// defaultGlobs are directories in which packages install the server's programs outside PATH.
const defaultGlobs = "/usr/lib/postgresql/*/bin:" + // Debian, Ubuntu
	"/usr/pgsql-*/bin:" + // RPM
	"/usr/libexec/postgresql*:" + // Alpine
	"/opt/homebrew/opt/postgresql*/bin:/usr/local/opt/postgresql*/bin:/home/linuxbrew/.linuxbrew/opt/postgresql*/bin:" +
	"/Applications/Postgres.app/Contents/Versions/*/bin:" +
	"/usr/local/pgsql/bin" // built from source

// defaultPath is searched after PATH, which may be empty.
const defaultPath = "/usr/local/bin:/usr/bin:/opt/homebrew/bin"

// hint ends the error on a machine without Postgres.
const hint = "install it (apt install postgresql, apk add postgresql, brew install postgresql@18), " +
	"or install npm so that it can be fetched, or set DATABASE_URL"

var (
	versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)
	digits         = regexp.MustCompile(`\d+`)
)

// finder finds the directory with initdb and postgres.
type finder struct {
	// cache returns the directory of downloaded releases.
	cache func() (string, error)
	// globs are patterns of directories.
	globs []string
	// path lists the directories of PATH.
	path []string
	// pin is the release to download; the zero value disables the download.
	pin pin
}

// newFinder returns a finder for the usual locations.
func newFinder(acct account) *finder {
	return &finder{
		cache: acct.cacheDir,
		globs: strings.Split(defaultGlobs, ":"),
		path:  filepath.SplitList(os.Getenv("PATH") + ":" + defaultPath),
		pin:   pins()[runtime.GOOS+"/"+runtime.GOARCH],
	}
}

// Major returns the major version of a new cluster on this machine.
func Major(ctx context.Context) (int, error) {
	acct, err := serverAccount()
	if err != nil {
		return 0, err
	}
	dir, err := newFinder(acct).find(ctx, acct, 0)
	if err != nil {
		return 0, err
	}
	return programMajor(ctx, dir), nil
}

// find returns the directory of the programs of a major version, or of any supported version if
// major is 0. It searches PATH, pg_config, the directories of packages from newest to oldest, and
// the cache. If it finds none, it downloads a release into the cache.
func (f *finder) find(ctx context.Context, acct account, major int) (string, error) {
	for dir := range f.candidates(ctx) {
		if acct.canEnter(dir) && suits(programMajor(ctx, dir), major) {
			return dir, nil
		}
	}
	dir, err := f.fetch(ctx, major)
	if err != nil {
		wanted := "Postgres"
		if major != 0 {
			wanted = fmt.Sprintf("Postgres %d, which made this data,", major)
		}
		return "", fmt.Errorf("no %s on this machine: %s (%w)", wanted, hint, err)
	}
	return dir, nil
}

// fetch downloads the pinned release into the cache and returns the directory of its programs.
func (f *finder) fetch(ctx context.Context, major int) (string, error) {
	if f.pin.name == "" || !suits(pinnedMajor, major) {
		return "", errors.New("npm can fetch only Postgres " + pinnedVersion + ", for Linux and macOS on x64 and arm64")
	}
	npm := ""
	for _, dir := range f.path {
		npm = cmp.Or(npm, executable(filepath.Join(dir, "npm")))
	}
	if npm == "" {
		return "", errors.New("npm is not installed either")
	}
	cache, err := f.cache()
	if err != nil {
		return "", err
	}
	return fetch(ctx, npm, cache, f.pin)
}

// executable returns path if it is an executable file, otherwise "". It ignores relative entries of
// PATH, because they depend on the working directory.
func executable(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || !filepath.IsAbs(path) {
		return ""
	}
	return path
}

func suits(have, want int) bool {
	return have >= oldestMajor && (want == 0 || have == want)
}

// candidates yields directories that hold both programs, in order of preference. Symbolic links are
// resolved.
func (f *finder) candidates(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		offer := func(dir string) bool {
			found, ok := programDir(dir)
			return !ok || yield(found)
		}
		for _, dir := range f.path {
			if !offer(dir) {
				return
			}
		}
		for _, dir := range f.path {
			config := executable(filepath.Join(dir, "pg_config"))
			if config == "" {
				continue
			}
			if out, err := output(ctx, config, "--bindir"); err == nil && !offer(out) {
				return
			}
		}
		for _, pattern := range f.globs {
			for _, dir := range newestFirst(pattern) {
				if !offer(dir) {
					return
				}
			}
		}
		if cache, err := f.cache(); err == nil {
			offer(filepath.Join(cache, pinnedName, "bin"))
		}
	}
}

// programDir resolves the directory of initdb, because initdb searches its other files relative to
// it. It also reports whether postgres is there.
func programDir(dir string) (string, bool) {
	initdb, err := filepath.EvalSymlinks(filepath.Join(dir, "initdb"))
	if err != nil || !filepath.IsAbs(initdb) {
		return "", false
	}
	dir = filepath.Dir(initdb)
	return dir, executable(filepath.Join(dir, "postgres")) != ""
}

// newestFirst returns the matching directories, sorted by the first number in the variable part.
func newestFirst(pattern string) []string {
	dirs, _ := filepath.Glob(pattern) // the patterns are constants and well formed
	fixed, _, _ := strings.Cut(pattern, "*")
	number := func(dir string) int {
		n, _ := strconv.Atoi(digits.FindString(strings.TrimPrefix(dir, fixed)))
		return n
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(number(b), number(a)) })
	return dirs
}

// programMajor returns the major version of the postgres in dir, or 0 if it does not run.
func programMajor(ctx context.Context, dir string) int {
	out, err := output(ctx, filepath.Join(dir, "postgres"), "--version")
	if err != nil {
		return 0
	}
	match := versionPattern.FindStringSubmatch(out)
	if match == nil {
		return 0
	}
	major, _ := strconv.Atoi(match[1])
	return major
}

// output runs a program and returns its standard output.
func output(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	return strings.TrimSpace(string(out)), err
}
