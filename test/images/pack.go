package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// pack makes the image of one platform. The level is gzip's.
func pack(r Recipe, platform v1.Platform, s Stamp, p program, level int) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return layerOf(p.path, r.program, s) },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(level), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: s.Time.UTC()}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "COPY " + r.Entrypoint()}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = created
	config.Config = v1.Config{Entrypoint: []string{r.Entrypoint()}, User: User, Labels: r.labels(s, p.version(r, s))}
	return mutate.ConfigFile(image, config)
}

// layerOf is the one layer: the program, root's and writable for nobody. It is written while it is read, since a
// program is large and is read more than once.
func layerOf(path, name string, s Stamp) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	reader, writer := io.Pipe()
	go func() {
		w := tar.NewWriter(writer)
		err := w.WriteHeader(&tar.Header{
			Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: name, Mode: 0o555, Size: info.Size(), ModTime: s.Time.UTC(),
		})
		if err == nil {
			_, err = io.Copy(w, file)
		}
		if err = errors.Join(err, w.Close(), file.Close()); err != nil {
			err = fmt.Errorf("pack %s: %w", path, err)
		}
		_ = writer.CloseWithError(err) // never fails
	}()
	return reader, nil
}
