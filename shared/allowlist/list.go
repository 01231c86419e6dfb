package allowlist

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Entry is one namespace of a list.
type Entry struct {
	// Name is a DNS-1123 label.
	Name string
	// UID is the namespace's uid at the cluster; empty when the source is a file.
	UID string
}

// List is a set of namespaces, sorted by name, each name once. It cannot be changed. The zero List is empty; an
// empty list grants nothing and is not the same as having no list.
type List struct {
	entries []Entry
}

// NewList sorts and checks entries, which stay the caller's. It refuses invalid names and uids, and two entries of
// one name with different uids; equal entries are merged. Whether a list fits into a record is decided when it is
// sealed.
func NewList(entries []Entry) (List, error) {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	sorted = slices.Compact(sorted)
	for i, e := range sorted {
		if err := checkEntry(e); err != nil {
			return List{}, err
		}
		if i > 0 && sorted[i-1].Name == e.Name {
			return List{}, fmt.Errorf("namespace %s is listed with two uids, %s and %s", e.Name, quote(sorted[i-1].UID), quote(e.UID))
		}
	}
	return List{entries: sorted}, nil
}

func checkEntry(e Entry) error {
	if err := CheckNamespace(e.Name); err != nil {
		return err
	}
	if e.UID == "" {
		return nil
	}
	if problem := tokenProblem(e.UID, maxUID); problem != "" {
		return fmt.Errorf("uid %s of namespace %s %s", quote(e.UID), e.Name, problem)
	}
	return nil
}

// Len is the number of namespaces.
func (l List) Len() int { return len(l.entries) }

// All yields the entries in the order of their names.
func (l List) All() iter.Seq[Entry] { return slices.Values(l.entries) }

// Lookup finds a namespace by its exact name.
func (l List) Lookup(name string) (Entry, bool) {
	i, found := slices.BinarySearchFunc(l.entries, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
	if !found {
		return Entry{}, false
	}
	return l.entries[i], true
}

// Equal reports whether both lists hold the same names with the same uids.
func (l List) Equal(other List) bool { return slices.Equal(l.entries, other.entries) }

// index is for lookups whose cost must not grow with the list.
func (l List) index() map[string]string {
	uids := make(map[string]string, len(l.entries))
	for _, e := range l.entries {
		uids[e.Name] = e.UID
	}
	return uids
}
