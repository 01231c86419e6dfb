package filesource

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxFile is the largest file in bytes that is read. The longest list that can be published, allowlist.MaxNames names
	// of 63 bytes, has 6.6 MB as compact JSON and fits with indentation.
	MaxFile = 8 << 20
	// DefaultReadTimeout is how long one read of the file may take. It leaves half of the default source_max_age.
	DefaultReadTimeout = 5 * time.Second

	// maxPath is what a record's source path can hold (allowlist.Source).
	maxPath = 4096
)

// Config says what to read.
type Config struct {
	// Path of the file. Absolute, one line of UTF-8, at most 4096 bytes.
	Path string
	// Poll is how often the file is read in full at least: file_poll. 100ms to 1m.
	Poll time.Duration
	// ReadTimeout is how long one read may take. Zero is DefaultReadTimeout; else 10ms to 1m.
	ReadTimeout time.Duration
}

// withDefaults fills what may be left out, and joins every problem of the rest.
func (c Config) withDefaults() (Config, error) {
	if c.ReadTimeout == 0 {
		c.ReadTimeout = DefaultReadTimeout
	}
	var problems []error
	if err := CheckPath(c.Path); err != nil {
		problems = append(problems, fmt.Errorf("file source: the path %s %w", quote(c.Path), err))
	}
	if c.Poll < 100*time.Millisecond || c.Poll > time.Minute {
		problems = append(problems, fmt.Errorf("file source: a poll every %s is out of range: want 100ms to 1m", c.Poll))
	}
	if c.ReadTimeout < 10*time.Millisecond || c.ReadTimeout > time.Minute {
		problems = append(problems, fmt.Errorf("file source: a read timeout of %s is out of range: want 10ms to 1m", c.ReadTimeout))
	}
	return c, errors.Join(problems...)
}

// CheckPath tells why New would refuse a path, which a record could not hold then: a snapshot names its file. The error
// continues a sentence that began with the path. It looks at no file.
func CheckPath(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return errors.New("must be an absolute path")
	case len(path) > maxPath:
		return fmt.Errorf("has %d bytes, at most %d are possible", len(path), maxPath)
	case !utf8.ValidString(path):
		return errors.New("is not valid UTF-8")
	case strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return errors.New("must be one line without control characters")
	}
	return nil
}

// quote shows text from elsewhere inside a message, on one line and cut short.
func quote(s string) string {
	const limit = 80
	if len(s) <= limit {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q... (%d bytes)", strings.ToValidUTF8(s[:limit], ""), len(s))
}
