package binary

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/filelock"
)

// Binary names one program and the module that pins it.
type Binary struct {
	Name    string // file name of the result
	Module  string // directory of the pinning module, relative to the repository's root
	Package string // import path, or a path relative to Module
	LDFlags string // linker flags beyond -s -w
}

// kubernetesVersion is the release that the module under test/cluster/binaries/kubernetes pins.
// Kubernetes takes its version from the linker; without it clients see v0.0.0.
const kubernetesVersion = "-X k8s.io/component-base/version.gitVersion=v1.37.2" +
	" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"

func kubernetes(name string) Binary {
	return Binary{
		Name:    name,
		Module:  "test/cluster/binaries/kubernetes",
		Package: "k8s.io/kubernetes/cmd/" + name,
		LDFlags: kubernetesVersion,
	}
}

// The programs of a cluster. The last four are only needed by the node profile.
var (
	Etcd              = Binary{Name: "etcd", Module: "test/cluster/binaries/etcd", Package: "."}
	APIServer         = kubernetes("kube-apiserver")
	ControllerManager = kubernetes("kube-controller-manager")
	Scheduler         = kubernetes("kube-scheduler")
	Kubelet           = kubernetes("kubelet")
	Proxy             = kubernetes("kube-proxy")
	Router            = Binary{
		Name:    "kube-router",
		Module:  "test/cluster/binaries/kuberouter",
		Package: "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router",
	}
	CoreDNS = Binary{Name: "coredns", Module: "test/cluster/binaries/coredns", Package: "."}
)

// Cache builds into and serves from one directory.
type Cache struct {
	root string    // repository root
	dir  string    // where results live
	log  io.Writer // progress for people
}

// NewCache returns the cache for the repository at root. The directory is $PORTCULLIS_CACHE, or
// portcullis below the user's cache directory. Progress is written to log.
func NewCache(root string, log io.Writer) (*Cache, error) {
	dir := os.Getenv("PORTCULLIS_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find a cache directory (set PORTCULLIS_CACHE to choose one): %w", err)
		}
		dir = filepath.Join(base, "portcullis")
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("PORTCULLIS_CACHE is %q: give an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the cache of test binaries: %w", err)
	}
	return &Cache{root: root, dir: dir, log: log}, nil
}

// Root finds the repository's root: the nearest directory at or above the working directory that
// holds go.work.
func Root() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository: no go.work at or above %s", wd)
		}
	}
}

// Paths returns the path of each binary by name, building what the cache lacks. A cold build of the
// Kubernetes binaries takes many minutes; each build is announced.
func (c *Cache) Paths(ctx context.Context, bins ...Binary) (map[string]string, error) {
	paths := make(map[string]string, len(bins))
	for _, b := range bins {
		p, err := c.path(ctx, b)
		if err != nil {
			return nil, err
		}
		paths[b.Name] = p
	}
	return paths, nil
}

// Digest identifies what Paths would return for the binaries: two equal digests are the same builds.
func (c *Cache) Digest(ctx context.Context, bins ...Binary) (string, error) {
	h := sha256.New()
	for _, b := range bins {
		key, err := c.key(ctx, b)
		if err != nil {
			return "", fmt.Errorf("%s: %w", b.Name, err)
		}
		fmt.Fprintf(h, "%s %s\n", b.Name, key)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

func (c *Cache) path(ctx context.Context, b Binary) (string, error) {
	key, err := c.key(ctx, b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", b.Name, err)
	}
	dest := filepath.Join(c.dir, "bin", key, b.Name)
	if _, err := os.Stat(dest); err == nil {
		return dest, nil
	}
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return "", fmt.Errorf("%s: %w", b.Name, err)
	}
	lock, err := filelock.Take(ctx, dest+".lock", filelock.Exclusive)
	if err != nil {
		return "", fmt.Errorf("%s: %w", b.Name, err)
	}
	defer func() { _ = lock.Close() }()
	if _, err := os.Stat(dest); err == nil { // built while we waited
		return dest, nil
	}
	start := time.Now()
	fmt.Fprintf(c.log, "building %s (once; cached afterwards)\n", b.Name)
	if err := c.build(ctx, filepath.Join(c.root, b.Module), b.Package, "-s -w "+b.LDFlags, dest); err != nil {
		return "", err
	}
	fmt.Fprintf(c.log, "built %s in %s\n", b.Name, time.Since(start).Round(time.Second))
	return dest, nil
}

// Own builds a main package of this repository's own (statically, stripped) and returns its path,
// which differs between checkouts that share the cache. It is built at every call: the toolchain's
// own cache makes that cheap and always right.
func (c *Cache) Own(ctx context.Context, name, module, pkg string) (string, error) {
	key := sha256.Sum256([]byte(c.root + "|" + module + "|" + pkg))
	dest := filepath.Join(c.dir, "own", hex.EncodeToString(key[:8]), name)
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	lock, err := filelock.Take(ctx, dest+".lock", filelock.Exclusive)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = lock.Close() }()
	return dest, c.build(ctx, filepath.Join(c.root, module), pkg, "-s -w", dest)
}

// build compiles into a temporary name and renames, so that dest is never half written.
func (c *Cache) build(ctx context.Context, dir, pkg, ldflags, dest string) error {
	tmp := fmt.Sprintf("%s.%d.tmp", dest, os.Getpid())
	defer func() { _ = os.Remove(tmp) }()
	// The go command leaves a program alone that is what it would build, and does not link it again.
	if err := duplicate(dest, tmp); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", tmp, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", pkg, dir, err, out)
	}
	return os.Rename(tmp, dest)
}

// duplicate copies a program, if there is one.
func duplicate(from, to string) error {
	before, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the program of before: %w", err)
	}
	return os.WriteFile(to, before, 0o755)
}

// key digests everything that decides what a build produces.
func (c *Cache) key(ctx context.Context, b Binary) (string, error) {
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("ask the go command for its version: %w", err)
	}
	dir := filepath.Join(c.root, b.Module)
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	files = append(files, filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum"))
	sort.Strings(files)
	h := sha256.New()
	fmt.Fprintf(h, "%s|%s|%s|", strings.TrimSpace(string(version)), b.Package, b.LDFlags)
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			return "", fmt.Errorf("read what pins it: %w", err)
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(f), len(body))
		h.Write(body)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
