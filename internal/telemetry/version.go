package telemetry

import "runtime/debug"

// The linker sets these if the build has no repository, as in the image: -X
// rubato/internal/telemetry.release=v1.2.3.
var (
	release string //nolint:gochecknoglobals // Only the linker sets it.
	commit  string //nolint:gochecknoglobals // Only the linker sets it.
)

// Version returns the version of this build: the release, otherwise the commit, with "-dirty" after
// local changes, otherwise "devel".
func Version() string { return built().version() }

// Commit returns the full commit ID of this build, or "" if it is not known.
func Commit() string { return built().commit }

const devel = "devel"

// build describes the source of a program.
type build struct {
	// release and commit are empty if they are not known.
	release, commit string
	// dirty is true if files differed from the commit.
	dirty bool
}

// built returns the values of the linker, or Go's build information if the linker set none.
func built() build {
	b := build{}
	if info, ok := debug.ReadBuildInfo(); ok {
		b = buildOf(info)
	}
	return b.linked(release, commit)
}

// linked returns the values of the linker if it set any, otherwise b.
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

// shortCommit is the length of a commit ID in a version. It is long enough to be unique.
const shortCommit = 12
