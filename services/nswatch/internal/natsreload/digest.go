package natsreload

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of what is watched, against a wrong directory.
const (
	maxFiles = 64
	maxFile  = 1 << 20
)

type digest [sha256.Size]byte

// digestOf is that of the names and contents of all regular files in dirs, through links. Names that begin with a dot are not looked at: those of
// mounted Secrets and ConfigMaps are the versions that the other names are links into.
func digestOf(dirs []string) (digest, error) {
	hash := sha256.New()
	files := 0
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return digest{}, err
		}
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			path := filepath.Join(dir, entry.Name())
			switch info, err := os.Stat(path); {
			case err != nil:
				return digest{}, err
			case !info.Mode().IsRegular():
				continue
			}
			if files++; files > maxFiles {
				return digest{}, fmt.Errorf("%q holds more than %d files: it is not the directory of a server's configuration", dir, maxFiles)
			}
			if err := add(hash, path); err != nil {
				return digest{}, err
			}
		}
	}
	return digest(hash.Sum(nil)), nil
}

// add hashes a file with its name, each behind its length.
func add(hash io.Writer, path string) error {
	content, err := read(path)
	if err != nil {
		return err
	}
	for _, part := range [][]byte{[]byte(path), content} {
		if err := binary.Write(hash, binary.BigEndian, uint64(len(part))); err != nil {
			return err
		}
		if _, err := hash.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// read gives a file of at most maxFile bytes.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("%q has more than %d bytes", path, maxFile)
	}
	return content, nil
}
