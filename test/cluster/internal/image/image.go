package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/filelock"
)

// Spec describes an image.
type Spec struct {
	Ref        string            // full reference with a tag; the host part is never resolved
	Programs   map[string]string // absolute path in the image -> file on this machine
	Entrypoint []string
}

// user is the numeric user that images name, so that runAsNonRoot can be verified by the kubelet.
const user = "65532:65532"

// Write packs the image into an archive at path that containerd can import.
func Write(path string, spec Spec) error {
	tag, err := name.NewTag(spec.Ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("image %q: %w", spec.Ref, err)
	}
	layer, err := pack(spec.Programs)
	if err != nil {
		return fmt.Errorf("image %s: %w", spec.Ref, err)
	}
	// It never leaves this machine: to compress it, which the race detector slows down tenfold, is time for nothing.
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil },
		tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return fmt.Errorf("image %s: %w", spec.Ref, err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return fmt.Errorf("image %s: %w", spec.Ref, err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("image %s: %w", spec.Ref, err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", runtime.GOARCH
	cfg.Config = v1.Config{Entrypoint: spec.Entrypoint, User: user}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return fmt.Errorf("image %s: %w", spec.Ref, err)
	}
	if err := tarball.WriteToFile(path, tag, img); err != nil {
		return fmt.Errorf("write image %s: %w", spec.Ref, err)
	}
	return nil
}

// Load imports the archive at path into the containerd that listens on socket. Whoever loads an image at the same time,
// also from another process, is waited for: containerd refuses the second of two imports that both make the same name.
func Load(ctx context.Context, socket, path string) (err error) {
	lock, err := filelock.Take(ctx, socket+".images.lock", filelock.Exclusive)
	if err != nil {
		return fmt.Errorf("load image archive %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	out, err := exec.CommandContext(ctx, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("load image archive %s: %w: %s", path, err, bytes.TrimSpace(out))
	}
	return nil
}

// pack makes the one layer: the programs and the directories above them.
func pack(programs map[string]string) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	paths := make([]string, 0, len(programs))
	for p := range programs {
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("program path %q is not absolute", p)
		}
		paths = append(paths, p)
	}
	sort.Strings(paths)
	dirs := map[string]bool{"/": true}
	for _, p := range paths {
		if err := packDirs(w, dirs, filepath.Dir(p)); err != nil {
			return nil, err
		}
		body, err := os.ReadFile(programs[p])
		if err != nil {
			return nil, err
		}
		err = w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(p, "/"), Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(body))})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(body); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func packDirs(w *tar.Writer, seen map[string]bool, dir string) error {
	if seen[dir] {
		return nil
	}
	seen[dir] = true
	if err := packDirs(w, seen, filepath.Dir(dir)); err != nil {
		return err
	}
	return w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(dir, "/") + "/", Typeflag: tar.TypeDir, Mode: 0o755})
}
