package demo

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// The programs beside those of the mesh.
const (
	kubeProgram       = "kube"
	supervisorProgram = "openshell-supervisor"
	runtimeProgram    = "openshell-sandbox"
	workloadProgram   = "openshell-workload"
)

// sources are the main packages of all programs.
func sources() map[string]string {
	all := map[string]string{
		mesh.NATS: "github.com/nats-io/nats-server/v2", kubeProgram: "./test/cluster/cmd/kube",
		supervisorProgram: "./test/companions/cmd/openshell-supervisor", runtimeProgram: "./test/companions/cmd/openshell-sandbox",
		workloadProgram: "./test/companions/cmd/openshell-workload",
	}
	for _, daemon := range mesh.Daemons() {
		all[daemon] = "./services/" + daemon + "/cmd/" + daemon
	}
	return all
}

// programsDir is where they are kept: a build of what did not change only looks.
func programsDir(root string) (string, error) {
	cache := os.Getenv("PORTCULLIS_CACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a cache directory (set PORTCULLIS_CACHE to choose one): %w", err)
		}
		cache = filepath.Join(base, "portcullis")
	}
	key := sha256.Sum256([]byte(root)) // checkouts share the cache
	dir := filepath.Join(cache, "demo", hex.EncodeToString(key[:8]))
	return dir, os.MkdirAll(dir, 0o755)
}

// Kube builds the program that runs our clusters, and returns its path.
func Kube(ctx context.Context, root string, told func(pkg string)) (string, error) {
	paths, err := build(ctx, root, map[string]string{kubeProgram: sources()[kubeProgram]}, told)
	return paths[kubeProgram], err
}

// Programs builds all programs of the repository at root, statically, and returns their paths by name. Told is called with each package
// that had to be compiled.
func Programs(ctx context.Context, root string, told func(pkg string)) (map[string]string, error) {
	return build(ctx, root, sources(), told)
}

func build(ctx context.Context, root string, wanted map[string]string, told func(pkg string)) (map[string]string, error) {
	dir, err := programsDir(root)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	args := []string{"build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", dir + "/"}
	for name, pkg := range wanted {
		paths[name] = filepath.Join(dir, name)
		args = append(args, pkg)
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	said, err := c.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("build the programs: %w", err)
	}
	var problems []string
	for lines := bufio.NewScanner(said); lines.Scan(); {
		line := lines.Text()
		if strings.ContainsAny(line, " \t#") {
			problems = append(problems, line)
			continue
		}
		told(line)
	}
	if err := c.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("build the programs: %w\n%s", err, strings.Join(problems, "\n"))
	}
	return paths, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Root is the repository's root: the nearest directory at or above the working directory that holds go.work.
func Root() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "go.work")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository: no go.work at or above %s", wd)
		}
	}
}
