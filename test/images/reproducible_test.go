//go:build portcullis_long

package images_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/images"
)

// The same sources give the same archives, byte by byte, of every image and for every platform: in another directory and in other
// surroundings. Both are copies, so that nobody edits the one meanwhile. What Go has compiled before may come from its cache; the linking,
// the layers and the bills are made twice.
func TestImagesAreReproducible(t *testing.T) {
	t.Parallel()
	const name, native = "nswatch", "linux/" + runtime.GOARCH
	here, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "a", "longer", "path")
	// NATS is built in the module of the tests, of which only the requirements count.
	for _, part := range []string{"proto", "shared", "services", "test/go.mod", "test/go.sum"} {
		copyTree(t, filepath.Join("..", "..", part), filepath.Join(here, part))
		copyTree(t, filepath.Join(here, part), filepath.Join(elsewhere, part))
	}
	first := command(t, nil, "--root", here, "--into", filepath.Join(here, "out"))
	surroundings := []string{
		"GOFLAGS=-tags=portcullis_other", "CGO_ENABLED=1", "GOAMD64=v3", "GOOS=windows", "TZ=Asia/Tokyo", "SOURCE_DATE_EPOCH=1", "TMPDIR=" + t.TempDir(),
	}
	second := command(t, surroundings, "--root", elsewhere, "--into", filepath.Join(elsewhere, "out"))
	if len(first) != len(images.Names()) || len(second) != len(first) {
		t.Fatalf("there are %d images, then %d", len(first), len(second))
	}
	for i, image := range first {
		if len(image.Sizes) != len(images.Platforms()) {
			t.Errorf("%s is for %d platforms", image.Name, len(image.Sizes))
		}
		if again := second[i]; image.Digest != again.Digest || !slices.EqualFunc(files(image), files(again), sameFile(t)) {
			t.Errorf("two archives of %s of the same sources differ: %s and %s", image.Name, image.Digest, again.Digest)
		}
	}
	// A test that cannot fail is none: one byte of the sources more.
	noError(t, os.WriteFile(filepath.Join(elsewhere, "shared", "telemetry", "other.go"), []byte("package telemetry\n\nfunc init() { version += \"x\" }\n"), 0o600))
	one := []string{"--platform", native, name}
	before := command(t, nil, append([]string{"--root", here, "--into", filepath.Join(here, "one")}, one...)...)[0]
	after := command(t, nil, append([]string{"--root", elsewhere, "--into", filepath.Join(elsewhere, "one")}, one...)...)[0]
	if before.Digest == after.Digest {
		t.Error("other sources give the same image")
	}
}

// files are all that a build leaves.
func files(image images.Image) []string { return append([]string{image.Archive}, image.Bills...) }

func sameFile(t *testing.T) func(a, b string) bool {
	return func(a, b string) bool {
		t.Helper()
		first, err := os.ReadFile(a)
		noError(t, err)
		second, err := os.ReadFile(b)
		noError(t, err)
		return bytes.Equal(first, second)
	}
}

// copyTree copies a file, or a directory with all that is in it.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	noError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	info, err := os.Stat(from)
	noError(t, err)
	if info.IsDir() {
		noError(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	text, err := os.ReadFile(from)
	noError(t, err)
	noError(t, os.WriteFile(to, text, 0o600))
}
