package allowlist

import (
	"errors"
	"fmt"
	"time"
)

// SourceKind says what a list was made from. The zero value is no source.
type SourceKind uint8

// The sources.
const (
	// SourceLabel: the namespaces that a label selector selects.
	SourceLabel SourceKind = iota + 1
	// SourceFile: a JSON file of names.
	SourceFile
)

// String is the kind as it stands in records.
func (k SourceKind) String() string {
	switch k {
	case SourceLabel:
		return "label"
	case SourceFile:
		return "file"
	default:
		return "none"
	}
}

// Source says where a list came from. For people; nothing is decided by it.
type Source struct {
	Kind SourceKind
	// Selector of a label source, Path of a file source; the other is empty. One line, 1 to 4096 bytes.
	Selector, Path string
	// Version of the source that the list shows: a resource version, or a content hash. 1 to 128 of letters, digits
	// and -_.:
	Version string
}

// Snapshot is the whole list of one gateway at one revision.
type Snapshot struct {
	// GatewayID is the gateway that the list is for; see CheckGatewayID.
	GatewayID string
	// Epoch is the term of the writer and Revision the number of the list, which grows across epochs. 1 to 2^53-1.
	Epoch, Revision uint64
	// Previous is the digest of the revision before; zero when the writer found none.
	Previous Digest
	// Writer is the process that made the list, unique to it. 1 to 128 of letters, digits and -_.:
	Writer string
	// PublishedAt is the writer's wall clock, in UTC and whole milliseconds.
	PublishedAt time.Time
	Source      Source
	// Namespaces have uids when the source is a label and none when it is a file.
	Namespaces List
	// Changes are those against the revision before.
	Changes Changes
}

// check refuses what no reader would accept.
func (s *Snapshot) check() error {
	if err := CheckGatewayID(s.GatewayID); err != nil {
		return err
	}
	if err := checkStamp(s.Epoch, s.Revision); err != nil {
		return err
	}
	if problem := tokenProblem(s.Writer, maxWriter); problem != "" {
		return fmt.Errorf("writer %s %s", quote(s.Writer), problem)
	}
	if !writable(s.PublishedAt) {
		return fmt.Errorf("published_at %s is not in UTC and whole milliseconds from 1970 to 9999", s.PublishedAt)
	}
	if err := s.Source.check(); err != nil {
		return err
	}
	if s.Namespaces.Len() > MaxNames {
		return fmt.Errorf("%w: it has %d namespaces, at most %d are allowed", ErrTooLarge, s.Namespaces.Len(), MaxNames)
	}
	for _, e := range s.Namespaces.entries {
		if (e.UID == "") != (s.Source.Kind == SourceFile) {
			return fmt.Errorf("namespace %s has uid %s: namespaces of a label source have one, those of a file have none", e.Name, quote(e.UID))
		}
	}
	return s.Changes.check(s.Namespaces)
}

func checkStamp(epoch, revision uint64) error {
	if epoch < 1 || epoch > maxWhole || revision < 1 || revision > maxWhole {
		return fmt.Errorf("epoch %d and revision %d must be from 1 to %d", epoch, revision, uint64(maxWhole))
	}
	return nil
}

func (s Source) check() error {
	what, text, other := "selector", s.Selector, s.Path
	switch s.Kind {
	case SourceLabel:
	case SourceFile:
		what, text, other = "path", s.Path, s.Selector
	default:
		return errors.New("the source has no kind")
	}
	if other != "" {
		return fmt.Errorf("a %s source has both a selector and a path", s.Kind)
	}
	if problem := textProblem(text, maxText); problem != "" {
		return fmt.Errorf("source %s %s %s", what, quote(text), problem)
	}
	if problem := tokenProblem(s.Version, maxVersion); problem != "" {
		return fmt.Errorf("source version %s %s", quote(s.Version), problem)
	}
	return nil
}

// check compares with the list that the changes led to: what was added is in it.
func (c Changes) check(list List) error {
	for _, side := range []struct {
		what  string
		names []string
		more  uint64
	}{{"added", c.Added, c.AddedMore}, {"removed", c.Removed, c.RemovedMore}} {
		if len(side.names) > MaxChanges || side.more > MaxNames || side.more > 0 && len(side.names) < MaxChanges {
			return fmt.Errorf("changes name %d and count %d more %s namespaces: at most %d are named, the rest is counted",
				len(side.names), side.more, side.what, MaxChanges)
		}
		for i, name := range side.names {
			if err := CheckNamespace(name); err != nil {
				return fmt.Errorf("changes: %w", err)
			}
			if i > 0 && side.names[i-1] >= name {
				return fmt.Errorf("changes: %s namespace %s does not follow %s in order", side.what, name, side.names[i-1])
			}
		}
	}
	for _, name := range c.Added {
		if _, ok := list.Lookup(name); !ok {
			return fmt.Errorf("changes: added namespace %s is not in the list", name)
		}
	}
	return nil
}
