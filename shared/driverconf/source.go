package driverconf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/pflag"
)

// MaxFileBytes is the largest settings file that Load reads.
const MaxFileBytes = 1 << 20

// Source says where the settings of one Load come from. The zero value is no
// file, no environment and no flags: the defaults of the stock standalone driver.
type Source struct {
	// Path is the settings file: a regular file of at most MaxFileBytes.
	Path string
	// Bytes is the text of the settings file when it is not nil; Path is then only
	// the name used in messages.
	Bytes []byte
	// LookupEnv is os.LookupEnv or a stand-in; nil means no environment.
	LookupEnv func(name string) (value string, ok bool)
	// Flags is a parsed set on which RegisterFlags was called; nil means no flags.
	Flags *pflag.FlagSet
	// Sections are the [portcullis.<name>] tables that this daemon uses, by name.
	Sections map[string]Section
	// Validate reports what the tables' own rules cannot see: rules over several
	// tables, or of one daemon alone. Its keys are full dotted keys. It must do no
	// I/O and keep nothing of c, which may yet be refused. Nil adds no rule.
	Validate func(c *Config, report Report)
}

// Report tells one problem of a key. The inputs are the other keys that the rule
// reads: if one of them, or the key itself, was not understood, the problem is
// dropped, since it might come from that alone.
type Report func(key, problem string, inputs ...string)

// text returns the settings file's text and name; ok is false when the source
// has no file. The error continues a sentence that began with the file.
func (s Source) text() (name string, text []byte, ok bool, err error) {
	switch {
	case s.Bytes != nil:
		name = s.Path
		if name == "" {
			name = "settings"
		}
		if len(s.Bytes) > MaxFileBytes {
			return name, nil, true, tooLarge(MaxFileBytes)
		}
		return name, s.Bytes, true, nil
	case s.Path != "":
		text, err = readRegular(s.Path, MaxFileBytes)
		return s.Path, text, true, err
	default:
		return "", nil, false, nil
	}
}

func tooLarge(limit int) error { return fmt.Errorf("is larger than %d bytes", limit) }

// readRegular reads a regular file of at most limit bytes. It opens without
// blocking, so that a FIFO in the file's place cannot hang the start.
func readRegular(path string, limit int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot be opened: %w", pathCause(err))
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be examined: %w", pathCause(err))
	case info.IsDir():
		return nil, errors.New("is a directory; name the file in it")
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", pathCause(err))
	case len(text) > limit:
		return nil, tooLarge(limit)
	}
	return text, nil
}

// pathCause drops the operation and the path that the caller's message has already.
func pathCause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
