//go:build portcullis_long

package images_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdxjson "github.com/spdx/tools-golang/json"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/images"
)

// largest is what an image may weigh when it is pulled.
const largest = 45 << 20

const (
	version = "v0.0.0-test"
	commit  = "0123456789012345678901234567890123456789"
	created = "2023-11-14T22:13:20Z"
	seconds = "1700000000"
)

// command runs the command images, which is compiled without the race detector: that one makes compression ten times
// slower, and is used on the same code in the internal tests.
func command(t *testing.T, env []string, args ...string) []images.Image {
	t.Helper()
	args = append(args, "--json", "--version", version, "--commit", commit, "--created", seconds)
	cmd := exec.CommandContext(t.Context(), cluster.Build(t, "images", "test", "./images/cmd/images"), args...)
	cmd.Env = append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("images %v: %v\n%s", args, err, said.String())
	}
	var built []images.Image
	if err := json.Unmarshal(out, &built); err != nil {
		t.Fatal(err)
	}
	return built
}

// opened is an archive, taken apart.
type opened struct {
	images.Image
	list  *v1.IndexManifest
	index v1.ImageIndex
	path  layout.Path
}

func open(t *testing.T, image images.Image) opened {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Open(image.Archive)
	noError(t, err)
	defer func() { _ = file.Close() }()
	unpack(t, file, dir)
	o := opened{Image: image, path: layout.Path(dir)}
	all, err := layout.ImageIndexFromPath(dir)
	noError(t, err)
	noError(t, validate.Index(all, validate.Fast)) // layers are read below
	o.list, err = all.IndexManifest()
	noError(t, err)
	o.index, err = all.ImageIndex(o.list.Manifests[0].Digest)
	noError(t, err)
	return o
}

func unpack(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		noError(t, err)
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s says whose machine made it, or when: %+v", h.Name, h)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			noError(t, os.MkdirAll(path, 0o755))
			continue
		}
		body, err := io.ReadAll(r)
		noError(t, err)
		noError(t, os.WriteFile(path, body, 0o600))
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// platforms are the images of an index.
func (o opened) platforms(t *testing.T) map[string]v1.Image {
	t.Helper()
	manifest, err := o.index.IndexManifest()
	noError(t, err)
	found := map[string]v1.Image{}
	for _, d := range manifest.Manifests {
		image, err := o.index.Image(d.Digest)
		noError(t, err)
		found[d.Platform.String()] = image
	}
	return found
}

// contents are the files of an image's one layer and their bytes. Another program decompresses it: the race detector would make a minute
// of it.
func contents(t *testing.T, image v1.Image) (headers map[string]*tar.Header, bodies map[string][]byte) {
	t.Helper()
	layers, err := image.Layers()
	noError(t, err)
	if len(layers) != 1 {
		t.Fatalf("%d layers, want one", len(layers))
	}
	layer, err := layers[0].Compressed()
	noError(t, err)
	defer func() { _ = layer.Close() }()
	unzip := exec.CommandContext(t.Context(), "gzip", "--decompress", "--stdout")
	unzip.Stdin = layer
	files, err := unzip.Output()
	noError(t, err)
	config, err := image.ConfigFile()
	noError(t, err)
	if sum := sha256.Sum256(files); config.RootFS.DiffIDs[0].Hex != hex.EncodeToString(sum[:]) {
		t.Errorf("the layer is not the one of the configuration, %s", config.RootFS.DiffIDs[0])
	}
	headers, bodies = map[string]*tar.Header{}, map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(files)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return headers, bodies
		}
		noError(t, err)
		headers[h.Name] = h
		bodies[h.Name], err = io.ReadAll(r)
		noError(t, err)
	}
}

var all struct {
	sync.Once
	dir    string
	images []images.Image
}

// everything builds all images, once.
func everything(t *testing.T) []images.Image {
	t.Helper()
	all.Do(func() {
		var err error
		all.dir, err = os.MkdirTemp("", "images")
		noError(t, err)
		all.images = command(t, nil, "--root", filepath.Join("..", ".."), "--into", all.dir)
	})
	if len(all.images) == 0 {
		t.Fatal("the images could not be built")
	}
	return all.images
}

func TestMain(m *testing.M) {
	code := m.Run()
	if all.dir != "" {
		_ = os.RemoveAll(all.dir)
	}
	os.Exit(code)
}

// machines are what programs for a platform are made for.
var machines = map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}

// Each image holds its one static program, runs it as nobody in particular, and says where it comes from; its bill lists
// all that is inside.
func TestShippedImages(t *testing.T) {
	t.Parallel()
	built := everything(t)
	if len(built) != len(images.Names()) {
		t.Fatalf("%d images are built, of %v", len(built), images.Names())
	}
	for _, image := range built {
		t.Run(image.Name, func(t *testing.T) {
			t.Parallel()
			o := open(t, image)
			digest, err := o.index.Digest()
			noError(t, err)
			if digest.String() != image.Digest {
				t.Errorf("it is %s and said to be %s", digest, image.Digest)
			}
			if got := o.list.Manifests[0].Annotations["io.containerd.image.name"]; got != image.Reference {
				t.Errorf("containerd calls it %q, not %q", got, image.Reference)
			}
			platforms := o.platforms(t)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(machines)), slices.Sorted(maps.Keys(platforms))); diff != "" {
				t.Errorf("platforms (-want +got):\n%s", diff)
			}
			for platform, one := range platforms {
				info := demandProgram(t, image.Name, platform, one)
				demandConfig(t, image.Name, platform, one, info)
				o.demandBill(t, platform, one, info)
				if weight := image.Sizes[platform]; weight <= 0 || weight > largest {
					t.Errorf("%s: it weighs %d bytes, may weigh %d", platform, weight, largest)
				} else {
					t.Logf("%s: %.1f MiB", platform, float64(weight)/(1<<20))
				}
			}
		})
	}
}

// demandProgram demands that the image holds its program alone, and returns what that says it was made from.
func demandProgram(t *testing.T, name, platform string, image v1.Image) *debug.BuildInfo {
	t.Helper()
	headers, bodies := contents(t, image)
	program := entry(name)
	if len(headers) != 1 || headers[program] == nil {
		t.Fatalf("%s: it holds %v, want %s alone", platform, slices.Collect(maps.Keys(headers)), program)
	}
	if h := headers[program]; h.Typeflag != tar.TypeReg || h.Mode != 0o555 || h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1_700_000_000 {
		t.Errorf("%s: the program is %+v", platform, h)
	}
	binary, err := elf.NewFile(bytes.NewReader(bodies[program]))
	noError(t, err)
	if binary.Machine != machines[platform] {
		t.Errorf("%s: the program is for %s", platform, binary.Machine)
	}
	if libraries, _ := binary.ImportedLibraries(); len(libraries) > 0 || binary.Section(".interp") != nil {
		t.Errorf("%s: the program needs %v, and a loader", platform, libraries)
	}
	info, err := buildinfo.Read(bytes.NewReader(bodies[program]))
	noError(t, err)
	if name != images.NATS && platform == "linux/"+runtime.GOARCH {
		demandVersion(t, bodies[program])
	}
	return info
}

func entry(name string) string {
	if name == images.NATS {
		return "nats-server"
	}
	return name
}

// demandVersion runs the program: what it says about itself is what the image says.
func demandVersion(t *testing.T, program []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	noError(t, os.WriteFile(path, program, 0o500))
	out, err := exec.CommandContext(t.Context(), path, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), version) || !strings.Contains(string(out), commit[:7]) {
		t.Errorf("the program says %q, %v", out, err)
	}
}

func demandConfig(t *testing.T, name, platform string, image v1.Image, info *debug.BuildInfo) {
	t.Helper()
	config, err := image.ConfigFile()
	noError(t, err)
	if config.OS+"/"+config.Architecture != platform || len(config.RootFS.DiffIDs) != 1 {
		t.Errorf("%s: it is for %s/%s, of %d layers", platform, config.OS, config.Architecture, len(config.RootFS.DiffIDs))
	}
	labels := config.Config.Labels
	want := v1.Config{User: "65532:65532", Entrypoint: []string{"/" + entry(name)}, Labels: labels}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("%s: (-want +got):\n%s", platform, diff)
	}
	said := map[string]string{"title": name, "version": version, "revision": commit, "created": created, "licenses": "Apache-2.0"}
	if name == images.NATS {
		said["version"], said["revision"] = strings.TrimPrefix(info.Main.Version, "v"), ""
	}
	for key, value := range said {
		if got := labels["org.opencontainers.image."+key]; got != value {
			t.Errorf("%s: label %s is %q, want %q", platform, key, got, value)
		}
	}
	if labels["org.opencontainers.image.description"] == "" || !strings.HasPrefix(labels["org.opencontainers.image.source"], "https://") {
		t.Errorf("%s: labels %v", platform, labels)
	}
}

// demandBill demands that the image's bill is attached to it and beside it, and lists every module of the program.
func (o opened) demandBill(t *testing.T, platform string, image v1.Image, info *debug.BuildInfo) {
	t.Helper()
	digest, err := image.Digest()
	noError(t, err)
	var attached []byte
	for _, d := range o.list.Manifests[1:] {
		text, err := o.path.Bytes(d.Digest)
		noError(t, err)
		manifest, err := v1.ParseManifest(bytes.NewReader(text))
		noError(t, err)
		if manifest.Subject == nil || manifest.Subject.Digest != digest {
			continue
		}
		if d.ArtifactType != "application/spdx+json" || manifest.ArtifactType != d.ArtifactType || len(manifest.Layers) != 1 || attached != nil {
			t.Errorf("%s: attached is %s", platform, text)
		}
		attached, err = o.path.Bytes(manifest.Layers[0].Digest)
		noError(t, err)
	}
	i := slices.IndexFunc(o.Bills, func(path string) bool {
		return strings.HasSuffix(path, "-"+strings.TrimPrefix(platform, "linux/")+".spdx.json")
	})
	if i < 0 || attached == nil {
		t.Fatalf("%s: no bill of materials among %v, or none is attached", platform, o.Bills)
	}
	beside, err := os.ReadFile(o.Bills[i])
	noError(t, err)
	if !bytes.Equal(attached, beside) {
		t.Errorf("%s: the bill beside the image is not the one attached", platform)
	}
	var bill spdx.Document
	noError(t, spdxjson.ReadInto(bytes.NewReader(attached), &bill))
	listed := map[string]string{}
	for _, p := range bill.Packages[1:] {
		listed[p.PackageName] = strings.TrimSpace(p.PackageVersion + " " + strings.TrimPrefix(p.PackageSourceInfo, "go.sum "))
	}
	inside := map[string]string{"stdlib": strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range append(info.Deps, &info.Main) {
		inside[m.Path] = strings.TrimSpace(m.Version + " " + m.Sum)
		if m.Replace != nil || m.Version == "(devel)" {
			inside[m.Path] = version
		}
	}
	if diff := cmp.Diff(inside, listed); diff != "" {
		t.Errorf("%s: (-in the program +in the bill):\n%s", platform, diff)
	}
}
