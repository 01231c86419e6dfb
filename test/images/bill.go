package images

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What a bill is to a registry (OCI 1.1: an artifact with an empty configuration that names its subject).
const (
	billType  = "application/spdx+json"
	emptyType = "application/vnd.oci.empty.v1+json"
)

// attached is a bill as an OCI artifact. It implements partial.CompressedImageCore.
type attached struct {
	layer    v1.Layer
	manifest []byte
}

var _ partial.CompressedImageCore = attached{}

// billFor attaches the bill to the image.
func billFor(subject v1.Image, bill []byte) (v1.Image, error) {
	about, err := partial.Descriptor(subject)
	if err != nil {
		return nil, fmt.Errorf("describe the image: %w", err)
	}
	nothing, layer := static.NewLayer([]byte("{}"), emptyType), static.NewLayer(bill, billType)
	config, err := describe(nothing)
	if err != nil {
		return nil, err
	}
	content, err := describe(layer)
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: billType, Config: config, Layers: []v1.Descriptor{content},
		Subject: &v1.Descriptor{MediaType: about.MediaType, Size: about.Size, Digest: about.Digest},
	})
	if err != nil {
		return nil, fmt.Errorf("attach the bill of materials: %w", err)
	}
	return partial.CompressedToImage(attached{layer: layer, manifest: manifest})
}

func describe(layer v1.Layer) (v1.Descriptor, error) {
	d, err := partial.Descriptor(layer)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("describe the bill of materials: %w", err)
	}
	return v1.Descriptor{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest}, nil
}

// RawConfigFile is OCI's empty object.
func (attached) RawConfigFile() ([]byte, error) { return []byte("{}"), nil }

// MediaType is that of every OCI manifest.
func (attached) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest is the manifest as it was made.
func (a attached) RawManifest() ([]byte, error) { return bytes.Clone(a.manifest), nil }

// LayerByDigest finds the bill.
func (a attached) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	own, err := a.layer.Digest()
	if err == nil && own != digest {
		err = fmt.Errorf("the bill of materials has no blob %s", digest)
	}
	return a.layer, err
}
