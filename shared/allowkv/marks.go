package allowkv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// maxMarksFile is far above what allowlist.EncodeMarks writes, bytes.
const maxMarksFile = 4 << 10

// marksFile is where a reader's high-water marks are between two of its lives (rule R2). The zero marksFile keeps
// nothing and never fails.
type marksFile struct {
	path      string
	gatewayID string
}

func newMarksFile(dir, name, gatewayID string) marksFile {
	if dir == "" {
		return marksFile{}
	}
	return marksFile{path: filepath.Join(dir, name+"-"+gatewayID+".marks"), gatewayID: gatewayID}
}

// load returns the stored marks; zero Marks and no error when there are none. The error is a file that cannot be read,
// is damaged or belongs to another gateway.
func (f marksFile) load() (allowlist.Marks, error) {
	if f.path == "" {
		return allowlist.Marks{}, nil
	}
	file := pemfile.File{Key: "high-water marks file", Path: f.path}
	content, err := file.Read(maxMarksFile)
	if errors.Is(err, fs.ErrNotExist) {
		return allowlist.Marks{}, nil
	}
	if err != nil {
		return allowlist.Marks{}, err
	}
	marks, err := allowlist.DecodeMarks(f.gatewayID, content)
	if err != nil {
		return allowlist.Marks{}, fmt.Errorf("%s: %w", file, err)
	}
	return marks, nil
}

// store replaces the file. When it returns nil the marks outlive a power cut; when it returns an error the old ones,
// or the new ones, are still there whole.
func (f marksFile) store(m allowlist.Marks) error {
	if f.path == "" {
		return nil
	}
	if err := f.replace(allowlist.EncodeMarks(f.gatewayID, m)); err != nil {
		return fmt.Errorf("store the high-water marks: %w", err)
	}
	return nil
}

func (f marksFile) replace(content []byte) error {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// One reader writes this file, so one name is enough, and a crash leaves one file to overwrite.
	next := f.path + ".next"
	if err := writeSynced(next, content); err != nil {
		return err
	}
	if err := os.Rename(next, f.path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
