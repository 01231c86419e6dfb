package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// part is the image of one platform and its bill of materials.
type part struct {
	platform v1.Platform
	image    v1.Image
	bill     []byte
}

// untyped is an image of which its index does not say what kind of artifact it is, since it is none. Programs that do not know that field, such as
// skopeo 1.9.3, write the index without it, and what they copy has another digest then.
type untyped struct{ v1.Image }

// ArtifactType is asked for by the library that writes the index.
func (untyped) ArtifactType() (string, error) { return "", nil }

// assemble makes the index of an image's platforms, which is what the reference names, and the layout's list of it and
// the bills. A bill is no entry of the image's own index: a node would take it for one more platform.
func assemble(reference string, parts []part) (index, list v1.ImageIndex, err error) {
	index = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	list = index
	var bills []mutate.IndexAddendum
	for _, p := range parts {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: untyped{p.image}, Descriptor: v1.Descriptor{Platform: &p.platform}})
		b, err := billFor(p.image, p.bill)
		if err != nil {
			return nil, nil, err
		}
		bills = append(bills, mutate.IndexAddendum{Add: b, Descriptor: v1.Descriptor{ArtifactType: billType}})
	}
	list = mutate.AppendManifests(list, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{
		// The first is what containerd imports by, and so what a Pod's image is looked up by; the second is OCI's.
		"io.containerd.image.name":          reference,
		"org.opencontainers.image.ref.name": reference[strings.LastIndexByte(reference, ':')+1:],
	}}})
	return index, mutate.AppendManifests(list, bills...), nil
}

// write makes the archive of an OCI layout at path: entries in order, with the stamp's time and nobody's name.
func write(path string, list v1.ImageIndex, s Stamp) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".layout")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := layout.Write(dir, list); err != nil {
		return fmt.Errorf("lay out %s: %w", path, err)
	}
	file, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	if err := errors.Join(archive(file, dir, s), file.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path+".tmp"))
	}
	return os.Rename(path+".tmp", path)
}

func archive(to io.Writer, dir string, s Stamp) error {
	w := tar.NewWriter(to)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, ModTime: s.Time.UTC()}
		if entry.IsDir() {
			header.Typeflag, header.Mode, header.Name = tar.TypeDir, 0o755, header.Name+"/"
			return w.WriteHeader(header)
		}
		return add(w, header, path)
	})
	return errors.Join(err, w.Close())
}

func add(w *tar.Writer, header *tar.Header, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
