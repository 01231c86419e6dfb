package images

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Stamp is what an image says about the sources it was made from. It is an input, never looked up: a build that asked
// for the time or for the state of a work tree could not be repeated.
type Stamp struct {
	Version string    // of this repository, as git describe says it
	Commit  string    // the full hash
	Time    time.Time // of the commit; whole seconds
}

// maxStamp bounds each text of a stamp; a tag cannot be longer.
const maxStamp = 128

// validate returns everything that is wrong.
func (s Stamp) validate() error {
	var found []error
	for _, text := range []struct{ field, value string }{{"version", s.Version}, {"commit", s.Commit}} {
		switch {
		case text.value == "":
			found = append(found, fmt.Errorf("the %s is empty: say which sources the images are made from", text.field))
		case len(text.value) > maxStamp:
			found = append(found, fmt.Errorf("the %s has %d characters, more than %d", text.field, len(text.value), maxStamp))
		case strings.ContainsFunc(text.value, odd):
			found = append(found, fmt.Errorf("the %s %q has other characters than letters, digits and . _ -", text.field, text.value))
		}
	}
	if s.Time.Unix() <= 0 {
		found = append(found, errors.New("the time of the commit is not set"))
	}
	return errors.Join(found...)
}

// odd keeps quotes and spaces out of linker flags and whatever is no tag out of names.
func odd(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
		return false
	}
	return true
}

// created is the time as labels and bills state it.
func (s Stamp) created() string { return s.Time.UTC().Format(time.RFC3339) }

// labels are what the image says about itself (OCI annotations). Version and revision are the program's: those of NATS
// are not ours.
func (r Recipe) labels(s Stamp, version string) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       r.Name,
		"org.opencontainers.image.description": r.Description,
		"org.opencontainers.image.source":      r.Source,
		"org.opencontainers.image.licenses":    License,
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.created":     s.created(),
	}
	if r.ours() {
		labels["org.opencontainers.image.revision"] = s.Commit
	}
	return labels
}
