//go:build portcullis_long

package manual_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// depot is a registry on this machine, which knows referrers (OCI 1.1).
type depot struct {
	server  *httptest.Server
	content atomic.Pointer[http.Handler]
	// certificates is a directory with the one of its authority.
	certificates string
}

func openDepot(t *testing.T) *depot {
	t.Helper()
	d := &depot{certificates: t.TempDir()}
	d.empty()
	d.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*d.content.Load()).ServeHTTP(w, r) }))
	d.server.Config.ErrorLog = silent // clients that end while they greet
	d.server.StartTLS()
	t.Cleanup(d.server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw})
	noError(t, os.WriteFile(filepath.Join(d.certificates, "ca.crt"), authority, 0o600))
	return d
}

var silent = log.New(io.Discard, "", 0)

// empty removes all that it has.
func (d *depot) empty() {
	content := registry.New(registry.WithReferrersSupport(true), registry.Logger(silent))
	d.content.Store(&content)
}

func (d *depot) address() string { return strings.TrimPrefix(d.server.URL, "https://") }

func (d *depot) reference(t *testing.T, text string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(text, name.StrictValidation)
	noError(t, err)
	return ref
}

func (d *depot) transport() remote.Option { return remote.WithTransport(d.server.Client().Transport) }

// held is what an archive holds, or a registry.
type held struct {
	Index  v1.Hash
	Images map[string]v1.Hash // by platform
	Bills  map[string]v1.Hash // those that are attached to the image of a platform
}

// small is the size of the largest blob that is no layer.
const small = 1 << 20

// inArchive reads what `make images` has written. The archive's list has the index first, and then the bills.
func inArchive(t *testing.T, path string) held {
	t.Helper()
	file, err := os.Open(path)
	noError(t, err)
	defer func() { _ = file.Close() }()
	files := map[string][]byte{}
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		noError(t, err)
		if h.Size > small {
			continue
		}
		files[h.Name], err = io.ReadAll(r)
		noError(t, err)
	}
	blob := func(digest v1.Hash) []byte { return files["blobs/"+digest.Algorithm+"/"+digest.Hex] }
	var list, index v1.IndexManifest
	noError(t, json.Unmarshal(files["index.json"], &list))
	all := held{Index: list.Manifests[0].Digest, Images: map[string]v1.Hash{}, Bills: map[string]v1.Hash{}}
	noError(t, json.Unmarshal(blob(all.Index), &index))
	for _, image := range index.Manifests {
		all.Images[image.Platform.String()] = image.Digest
		for _, bill := range list.Manifests[1:] {
			var manifest v1.Manifest
			noError(t, json.Unmarshal(blob(bill.Digest), &manifest))
			if manifest.Subject != nil && manifest.Subject.Digest == image.Digest {
				all.Bills[image.Platform.String()] = bill.Digest
			}
		}
	}
	if len(all.Images) != 2 || len(all.Bills) != 2 {
		t.Fatalf("%s holds %+v, want two platforms", path, all)
	}
	return all
}

// has reads what is at a reference, and demands that every blob of it is there.
func (d *depot) has(t *testing.T, reference string) held {
	t.Helper()
	ref := d.reference(t, reference)
	index, err := remote.Index(ref, d.transport())
	noError(t, err)
	noError(t, validate.Index(index, validate.Fast))
	manifest, err := index.IndexManifest()
	noError(t, err)
	all := held{Images: map[string]v1.Hash{}, Bills: map[string]v1.Hash{}}
	all.Index, err = index.Digest()
	noError(t, err)
	for _, image := range manifest.Manifests {
		all.Images[image.Platform.String()] = image.Digest
		referrers, err := remote.Referrers(ref.Context().Digest(image.Digest.String()), d.transport())
		noError(t, err)
		attached, err := referrers.IndexManifest()
		noError(t, err)
		for _, bill := range attached.Manifests {
			all.Bills[image.Platform.String()] = bill.Digest
		}
	}
	return all
}

// bill is the text of an attached bill of materials.
func (d *depot) bill(t *testing.T, repository string, digest v1.Hash) []byte {
	t.Helper()
	ref := d.reference(t, repository+"@"+digest.String())
	got, err := remote.Get(ref, d.transport())
	noError(t, err)
	manifest, err := v1.ParseManifest(bytes.NewReader(got.Manifest))
	noError(t, err)
	layer, err := remote.Layer(ref.Context().Digest(manifest.Layers[0].Digest.String()), d.transport())
	noError(t, err)
	content, err := layer.Compressed()
	noError(t, err)
	defer func() { _ = content.Close() }()
	text, err := io.ReadAll(content)
	noError(t, err)
	return text
}

// demand demands that an image has come here as it is in its archive, for both platforms, under the digest that a build prints; and its bills
// of materials, if those were to be copied.
func (d *depot) demand(t *testing.T, images, program string, bills bool) {
	t.Helper()
	repository := d.address() + "/you/" + program
	want, got := inArchive(t, filepath.Join(images, program+".tar")), d.has(t, repository+":v0.1.0")
	if !bills {
		want.Bills = map[string]v1.Hash{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: (-in the archive +in the registry):\n%s", program, diff)
		return
	}
	for platform, digest := range got.Bills {
		beside, err := os.ReadFile(filepath.Join(images, program+"-"+strings.TrimPrefix(platform, "linux/")+".spdx.json"))
		noError(t, err)
		if !bytes.Equal(beside, d.bill(t, repository, digest)) {
			t.Errorf("%s: the registry has another bill of materials for %s than is beside the archive", program, platform)
		}
	}
}
