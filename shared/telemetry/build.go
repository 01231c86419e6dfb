package telemetry

import (
	"runtime"
	"runtime/debug"
)

// Set by the linker in release builds:
//
//	-ldflags "-X github.com/portcullis-mesh/portcullis/shared/telemetry.version=v1.2.3
//	          -X github.com/portcullis-mesh/portcullis/shared/telemetry.commit=0123abc"
//
// They are the package's only variables, and nothing else writes them.
var version, commit string

// unknown stands for build facts that nobody recorded.
const unknown = "unknown"

// Build says what program runs. No field is empty.
type Build struct {
	// Version is the release, such as v1.2.3; "(devel)" in a plain go build.
	Version string
	// Commit is the revision the program was built from; "-dirty" follows when the
	// tree had changes.
	Commit string
	// GoVersion is the toolchain, such as go1.26.8.
	GoVersion string
}

// ReadBuild returns the facts of this program: what the linker was told, else what
// the toolchain recorded, else "unknown".
func ReadBuild() Build {
	info, _ := debug.ReadBuildInfo()
	return buildFrom(info, version, commit)
}

// buildFrom prefers linker facts over info, which may be nil.
func buildFrom(info *debug.BuildInfo, version, commit string) Build {
	b := Build{Version: version, Commit: commit, GoVersion: runtime.Version()}
	if info != nil {
		b.Version = firstSet(b.Version, info.Main.Version)
		b.Commit = firstSet(b.Commit, revision(info.Settings))
	}
	b.Version = firstSet(b.Version, unknown)
	b.Commit = firstSet(b.Commit, unknown)
	return b
}

func revision(settings []debug.BuildSetting) string {
	var revision, suffix string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			suffix = "-dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + suffix
}

func firstSet(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
