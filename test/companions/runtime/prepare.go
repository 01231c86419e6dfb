package runtime

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
)

// Places are the mounts of the workload Pod (contract 7.5).
type Places struct {
	Input   string // the bootstrap Secret
	State   string // where the files go
	Runtime string // where the program goes
	Image   string // the workspace of the image
	Claim   string // the workspace volume in the init container
}

// PodPlaces returns the places of contract 7.5.
func PodPlaces() Places {
	return Places{
		Input: "/.openshell/bootstrap-input", State: "/.openshell/state/bootstrap", Runtime: "/.openshell/runtime",
		Image: "/sandbox", Claim: "/mnt/openshell-workspace",
	}
}

// Program is the runtime's file name.
const Program = "openshell-sandbox"

// sentinel marks a workspace that was seeded (contract 7.5).
const sentinel = ".workspace-initialized"

// Prepare copies the program at self and the three files of the bootstrap Secret to where the agent
// container finds them. It may run again.
func Prepare(p Places, self string) error {
	if err := os.MkdirAll(p.State, 0o700); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	for _, name := range []string{"boundary.json", "tls.crt", "tls.key"} {
		data, err := bootstrap.Limited(filepath.Join(p.Input, name), bootstrap.MaxFile)
		if err != nil {
			return fmt.Errorf("bootstrap: %w", err)
		}
		err = replace(filepath.Join(p.State, name), 0o400, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
		clear(data)
		if err != nil {
			return fmt.Errorf("bootstrap: %w", err)
		}
	}
	if err := copyFile(self, filepath.Join(p.Runtime, Program), 0o555); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}

// Seed copies the image's workspace into the claim, unless that was done before. An image without a
// workspace leaves it empty. A copy that was cut short is done again from the start.
func Seed(p Places) error {
	mark := filepath.Join(p.Claim, sentinel)
	if _, err := os.Lstat(mark); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return wrap("seed workspace", err)
	}
	err := filepath.WalkDir(p.Image, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == p.Image {
			return fs.SkipAll
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(p.Image, path)
		if err != nil {
			return err
		}
		return seedEntry(path, filepath.Join(p.Claim, rel), d)
	})
	if err != nil {
		return wrap("seed workspace", err)
	}
	return wrap("seed workspace", replace(mark, 0o444, func(io.Writer) error { return nil }))
}

func seedEntry(from, to string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return os.MkdirAll(to, mode.Perm()|0o700)
	case mode.IsRegular():
		return copyFile(from, to, mode.Perm())
	case mode.Type() == fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.Symlink(target, to)
	default: // devices, sockets: a workspace has none
		return nil
	}
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return replace(to, mode, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// replace makes a file whole or not at all, and never follows what lies at its place.
func replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = errors.Join(write(f), f.Chmod(mode), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
