package image_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/filelock"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/image"
)

func spec(t *testing.T) image.Spec {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	return image.Spec{
		Ref:        "portcullis.test/program:1",
		Programs:   map[string]string{"/opt/tools/program": program, "/program": program},
		Entrypoint: []string{"/program"},
	}
}

func TestImageHoldsThePrograms(t *testing.T) {
	s := spec(t)
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := image.Write(path, s); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(s.Ref)
	if err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Config.User != "65532:65532" || len(cfg.Config.Entrypoint) != 1 || cfg.Config.Entrypoint[0] != "/program" {
		t.Errorf("image config %+v", cfg.Config)
	}
	files := map[string]int64{}
	layers := mutate.Extract(img)
	defer func() { _ = layers.Close() }()
	for r := tar.NewReader(layers); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			files[h.Name] = h.Mode
		}
	}
	if len(files) != 2 || files["program"] != 0o755 || files["opt/tools/program"] != 0o755 {
		t.Errorf("files and modes: %v", files)
	}
}

func TestSameProgramsGiveTheSameArchive(t *testing.T) {
	s := spec(t)
	var archives [2][]byte
	for i := range archives {
		path := filepath.Join(t.TempDir(), "image.tar")
		if err := image.Write(path, s); err != nil {
			t.Fatal(err)
		}
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = body
	}
	if string(archives[0]) != string(archives[1]) {
		t.Error("two archives of the same programs differ")
	}
}

func TestBadSpecsAreRefused(t *testing.T) {
	for name, breakIt := range map[string]func(*image.Spec){
		"no tag":          func(s *image.Spec) { s.Ref = "portcullis.test/program" },
		"relative path":   func(s *image.Spec) { s.Programs = map[string]string{"program": s.Programs["/program"]} },
		"missing program": func(s *image.Spec) { s.Programs["/program"] = "/nonexistent/program" },
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t)
			breakIt(&s)
			if err := image.Write(filepath.Join(t.TempDir(), "image.tar"), s); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// Whoever loads into a node waits for others that do: two imports that both make one name end in an error for one of them.
func TestLoadWaitsForAnotherLoad(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "containerd.sock")
	other, err := filelock.Take(t.Context(), socket+".images.lock", filelock.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := image.Load(ctx, socket, "image.tar"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "wait for the lock") {
		t.Fatalf("a load while another is at work ended with %v", err)
	}
}
