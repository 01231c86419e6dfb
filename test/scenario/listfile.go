package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// listFile is the file of namespaces, in a directory as the kubelet makes it of a ConfigMap: the file is a link into ..data, which
// is a link to the directory of the version.
type listFile struct {
	path    string
	dir     string
	version int
}

// The names in the directory.
const (
	listName = "namespaces.json"
	dataLink = "..data"
)

func newListFile(t testing.TB) *listFile {
	t.Helper()
	dir := t.TempDir()
	f := &listFile{dir: dir, path: filepath.Join(dir, listName)}
	if err := f.mount([]byte("[]")); err != nil {
		t.Fatal(err)
	}
	return f
}

// mount swaps the whole directory's content in one step, as the kubelet does.
func (f *listFile) mount(content []byte) error {
	f.version++
	former, _ := os.Readlink(filepath.Join(f.dir, dataLink)) // none at first
	version := fmt.Sprintf("..%d", f.version)
	if err := os.Mkdir(filepath.Join(f.dir, version), 0o700); err != nil {
		return fmt.Errorf("mount the file of namespaces: %w", err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, version, listName), content, 0o600); err != nil {
		return fmt.Errorf("mount the file of namespaces: %w", err)
	}
	if err := relink(version, filepath.Join(f.dir, dataLink)); err != nil {
		return err
	}
	if err := relink(filepath.Join(dataLink, listName), f.path); err != nil {
		return err
	}
	if former == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(f.dir, former))
}

// relink makes path a link to target, over whatever is there.
func relink(target, path string) error {
	next := path + ".next"
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}
	if err := os.Symlink(target, next); err != nil {
		return fmt.Errorf("mount the file of namespaces: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("mount the file of namespaces: %w", err)
	}
	return nil
}

// write writes over the file, so that readers may see a part.
func (f *listFile) write(content []byte) error { return os.WriteFile(f.path, content, 0o600) }

// replace renames a new file over it.
func (f *listFile) replace(content []byte) error {
	next := f.path + ".next"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.path)
}

func (f *listFile) remove() error { return os.Remove(f.path) }
