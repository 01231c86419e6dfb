package images

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// telemetry is the package whose variables the linker sets.
const telemetry = "github.com/portcullis-mesh/portcullis/shared/telemetry"

// Platforms are those that images are shipped for.
func Platforms() []v1.Platform {
	return []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}
}

// program is a compiled program and what it says about how it was made.
type program struct {
	path string
	info *debug.BuildInfo
}

// version is that of what the program was made from.
func (p program) version(r Recipe, s Stamp) string {
	if r.ours() {
		return s.Version
	}
	return strings.TrimPrefix(p.info.Main.Version, "v")
}

// flags are those of go build, without the output and the package. They depend on the stamp alone.
func (r Recipe) flags(s Stamp) []string {
	linker := "-s -w"
	if r.ours() {
		linker += " -X " + telemetry + ".version=" + s.Version + " -X " + telemetry + ".commit=" + s.Commit
	}
	return []string{"-trimpath", "-buildvcs=false", "-ldflags", linker}
}

// settings are the environment that decides what go build makes: that of the surroundings must not.
func settings(p v1.Platform) []string {
	return []string{
		"CGO_ENABLED=0", "GOOS=" + p.OS, "GOARCH=" + p.Architecture, "GOAMD64=v1", "GOARM64=v8.0",
		"GOWORK=off", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off",
	}
}

// compile builds the program into dir.
func compile(ctx context.Context, root, dir string, r Recipe, p v1.Platform, s Stamp) (program, error) {
	made := program{path: filepath.Join(dir, r.program+"-"+p.Architecture)}
	args := append([]string{"build"}, r.flags(s)...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", made.path, r.pkg)...)
	cmd.Dir = filepath.Join(root, r.module)
	cmd.Env = append(os.Environ(), settings(p)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return program{}, fmt.Errorf("compile %s for %s in %s: %w\n%s", r.Name, p.Architecture, cmd.Dir, err, out)
	}
	var err error
	if made.info, err = buildinfo.ReadFile(made.path); err != nil {
		return program{}, fmt.Errorf("read what %s was made from: %w", r.Name, err)
	}
	return made, nil
}
