package telemetry

import "runtime/debug"

// The linker sets these where there is no repository to read them from, as in the image: -X rubato/internal/telemetry.release=v1.2.3.
var (
	release string //nolint:gochecknoglobals // Only the linker writes it.
	commit  string //nolint:gochecknoglobals // Only the linker writes it.
)

// Version returns what this program was built from: the release where it is one, else the commit with "-dirty" where files had
// changed, else "devel".
func Version() string { return built().version() }

// Commit returns the whole ID of the commit that this program was built from, or "" if it is not known.
func Commit() string { return built().commit }

const devel = "devel"

// build is what is known of the source of a program.
type build struct {
	release, commit string // empty: not known
	dirty           bool   // files differed from the commit
}

// built returns what the linker was given, and the build information of Go for the rest.
func built() build {
	b := build{}
	if info, ok := debug.ReadBuildInfo(); ok {
		b = buildOf(info)
	}
	return b.linked(release, commit)
}

// linked returns b with what the linker was given in place of what Go found.
func (b build) linked(release, commit string) build {
	if release != "" || commit != "" {
		return build{release: release, commit: commit}
	}
	return b
}

func buildOf(info *debug.BuildInfo) build {
	b := build{}
	if v := info.Main.Version; v != "(devel)" {
		b.release = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.commit = s.Value
		case "vcs.modified":
			b.dirty = s.Value == "true"
		}
	}
	return b
}

func (b build) version() string {
	switch {
	case b.release != "":
		return b.release
	case b.commit == "":
		return devel
	case b.dirty:
		return b.commit[:min(len(b.commit), shortCommit)] + "-dirty"
	default:
		return b.commit[:min(len(b.commit), shortCommit)]
	}
}

// shortCommit is how much of a commit's ID a version shows: enough to be unique.
const shortCommit = 12
