package images

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/portcullis-mesh/portcullis/test/images/sbom"
)

// Options say what to build.
type Options struct {
	Root       string        // of this repository
	Into       string        // directory of the archives, made if it is missing; what is built replaces what has its name
	Stamp      Stamp         // goes into every image
	Names      []string      // of recipes; all of them if empty
	Platforms  []v1.Platform // at least one
	Repository string        // of the daemons' images; DefaultRepository if empty
	// Tag is that of the daemons' images; the stamp's version if empty. NATS is tagged with its version.
	Tag string
	// Raw leaves the layers uncompressed, for archives that do not leave the machine.
	Raw bool
}

// DefaultRepository is what the daemons' images are called below. Manifests name none that could be pulled: whoever installs says where from.
const DefaultRepository = "docker.io/portcullis"

// Image is a built image.
type Image struct {
	Name      string // of the recipe
	Reference string // by which a node that has loaded the archive knows it
	Digest    string // of the index: by this a registry pins it
	Archive   string // path
	Bills     []string
	Sizes     map[string]int64 // of what a node pulls, by platform, in bytes
}

// Build builds the images, one after the other.
func Build(ctx context.Context, o Options) ([]Image, error) {
	recipes, unknown := choose(o.Names)
	if unknown != "" {
		return nil, fmt.Errorf("image %q is none of %s", unknown, strings.Join(Names(), ", "))
	}
	if err := o.Stamp.validate(); err != nil {
		return nil, err
	}
	if len(o.Platforms) == 0 {
		return nil, errors.New("no platform is given")
	}
	if o.Repository == "" {
		o.Repository = DefaultRepository
	}
	if o.Tag == "" {
		o.Tag = o.Stamp.Version
	}
	if err := os.MkdirAll(o.Into, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the images: %w", err)
	}
	var built []Image
	for _, r := range recipes {
		image, err := build(ctx, o, r)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", r.Name, err)
		}
		built = append(built, image)
	}
	return built, nil
}

func build(ctx context.Context, o Options, r Recipe) (_ Image, err error) {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return Image{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	built := Image{Name: r.Name, Archive: filepath.Join(o.Into, r.Name+".tar"), Sizes: map[string]int64{}}
	level, tag := gzip.DefaultCompression, o.Tag
	if o.Raw {
		level = gzip.NoCompression
	}
	var parts []part
	for _, platform := range o.Platforms {
		p, err := compile(ctx, o.Root, dir, r, platform, o.Stamp)
		if err != nil {
			return Image{}, err
		}
		if !r.ours() {
			tag = p.version(r, o.Stamp)
		}
		made := part{platform: platform}
		if made.image, err = pack(r, platform, o.Stamp, p, level); err != nil {
			return Image{}, err
		}
		if made.bill, err = bill(r, platform, o.Stamp, p); err != nil {
			return Image{}, err
		}
		if built.Sizes[platform.String()], err = weigh(made.image); err != nil {
			return Image{}, err
		}
		path := filepath.Join(o.Into, r.Name+"-"+platform.Architecture+".spdx.json")
		if err := os.WriteFile(path, made.bill, 0o600); err != nil {
			return Image{}, err
		}
		built.Bills = append(built.Bills, path)
		parts = append(parts, made)
	}
	if built.Reference, err = r.reference(o.Repository, tag); err != nil {
		return Image{}, err
	}
	index, list, err := assemble(built.Reference, parts)
	if err != nil {
		return Image{}, err
	}
	digest, err := index.Digest()
	if err != nil {
		return Image{}, err
	}
	built.Digest = digest.String()
	return built, write(built.Archive, list, o.Stamp)
}

// weigh is what a node pulls: manifest, configuration and layers.
func weigh(image v1.Image) (int64, error) {
	total, err := image.Size()
	if err != nil {
		return 0, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	total += manifest.Config.Size
	for _, layer := range manifest.Layers {
		total += layer.Size
	}
	return total, nil
}

func bill(r Recipe, platform v1.Platform, s Stamp, p program) ([]byte, error) {
	file, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = sbom.Write(&text, sbom.Subject{
		Name: r.Name, Path: r.Entrypoint(), Version: p.version(r, s), License: License, Platform: platform.String(),
		Digest: [32]byte(hash.Sum(nil)), Created: s.Time, Namespace: Source + "/sbom",
	}, p.info)
	return text.Bytes(), err
}
