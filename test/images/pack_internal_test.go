package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.uber.org/goleak"
)

// content is what goes into an archive.
type content struct {
	recipe   Recipe
	platform v1.Platform
	stamp    Stamp
	program  string
	level    int
}

func validContent() content {
	return content{recipe: daemons()[0], platform: Platforms()[0], stamp: fixedStamp, program: "a program", level: gzip.DefaultCompression}
}

// assembled is the index of a program's image, and the list of what is in its archive. The program is written anew, into dir.
func assembled(t *testing.T, dir string, c content) (index, list v1.ImageIndex) {
	t.Helper()
	p := program{path: filepath.Join(dir, "some-name"), info: &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/ours", Version: "v1.0.0"}}}
	if err := os.WriteFile(p.path, []byte(c.program), 0o600); err != nil {
		t.Fatal(err)
	}
	made := part{platform: c.platform}
	var err error
	if made.image, err = pack(c.recipe, c.platform, c.stamp, p, c.level); err != nil {
		t.Fatal(err)
	}
	if made.bill, err = bill(c.recipe, c.platform, c.stamp, p); err != nil {
		t.Fatal(err)
	}
	index, list, err = assemble("docker.io/portcullis/"+c.recipe.Name+":v1", []part{made})
	if err != nil {
		t.Fatal(err)
	}
	return index, list
}

// archived is the archive of a program, at the path in a directory of its own.
func archived(t *testing.T, c content) []byte {
	t.Helper()
	dir := t.TempDir()
	_, list := assembled(t, dir, c)
	path := filepath.Join(dir, "image.tar")
	if err := write(path, list, c.stamp); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("beside the archive and the program are %v, %v", left, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An archive depends on what goes into it and on nothing else; and on all of that.
func TestArchives(t *testing.T) {
	t.Parallel()
	first := archived(t, validContent())
	if !bytes.Equal(first, archived(t, validContent())) {
		t.Error("the same content makes two archives")
	}
	for name, change := range map[string]func(*content){
		"recipe":   func(c *content) { c.recipe = daemons()[1] },
		"platform": func(c *content) { c.platform = Platforms()[1] },
		"version":  func(c *content) { c.stamp.Version = "v2" },
		"commit":   func(c *content) { c.stamp.Commit = "0b" },
		"time":     func(c *content) { c.stamp.Time = c.stamp.Time.Add(time.Second) },
		"program":  func(c *content) { c.program = "b program" },
		"level":    func(c *content) { c.level = gzip.NoCompression },
	} {
		c := validContent()
		change(&c)
		if bytes.Equal(first, archived(t, c)) {
			t.Errorf("another %s makes the same archive", name)
		}
	}
}

// The index says of a platform's image what every program that copies images knows: one that leaves out what it does not know would make another
// digest of it.
func TestIndexIsCopiedAsItIs(t *testing.T) {
	t.Parallel()
	c := validContent()
	index, _ := assembled(t, t.TempDir(), c)
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the index is of %+v, %v", manifest, err)
	}
	got := manifest.Manifests[0]
	want := v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: got.Size, Digest: got.Digest, Platform: &c.platform}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the index's entry (-want +got):\n%s", diff)
	}
}

// A layer says nothing about the machine, the moment or the person that made it.
func TestLayerHeader(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "some-name")
	if err := os.WriteFile(path, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	layer, err := layerOf(path, "nswatch", fixedStamp)
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(layer)
	got, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	want := &tar.Header{
		Typeflag: tar.TypeReg, Name: "nswatch", Mode: 0o555, Size: int64(len("a program")), ModTime: time.Unix(fixedStamp.Time.Unix(), 0), Format: tar.FormatUSTAR,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("there is something more: %v", err)
	}
	if err := layer.Close(); err != nil {
		t.Error(err)
	}
}

// Whoever does not read a layer to its end leaves nothing running.
func TestLayersAreGivenUp(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	layer, err := layerOf(path, "program", fixedStamp)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(layer, make([]byte, 1024)); err != nil {
		t.Fatal(err)
	}
	if err := layer.Close(); err != nil {
		t.Fatal(err)
	}
}

// What cannot be read is an error that names it, not a shorter layer.
func TestLayersOfNothing(t *testing.T) {
	t.Parallel()
	if _, err := layerOf(filepath.Join(t.TempDir(), "absent"), "program", fixedStamp); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("%v, want an error about the program", err)
	}
	layer, err := layerOf(t.TempDir(), "program", fixedStamp)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(layer); err == nil {
		t.Error("a directory makes a layer")
	}
}
