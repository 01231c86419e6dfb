package allowlist

import "strings"

// Difference is what changed from one list to another. A namespace whose uid changed was removed and added: it is
// another namespace under the same name.
type Difference struct {
	Added, Removed []Entry
}

// Diff compares two lists in one pass; both sides of the result are sorted by name.
func Diff(from, to List) Difference {
	var d Difference
	a, b := from.entries, to.entries
	for len(a) > 0 || len(b) > 0 {
		switch order := compareHeads(a, b); {
		case order < 0:
			d.Removed, a = append(d.Removed, a[0]), a[1:]
		case order > 0:
			d.Added, b = append(d.Added, b[0]), b[1:]
		default:
			if a[0].UID != b[0].UID {
				d.Removed, d.Added = append(d.Removed, a[0]), append(d.Added, b[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return d
}

// compareHeads says which list's first name comes first; an exhausted list comes last.
func compareHeads(a, b []Entry) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	default:
		return strings.Compare(a[0].Name, b[0].Name)
	}
}

// Empty reports that nothing changed.
func (d Difference) Empty() bool { return len(d.Added) == 0 && len(d.Removed) == 0 }

// Changes is the summary of a Difference inside a snapshot, for people; nothing is decided by it.
type Changes struct {
	// Added and Removed are names in order, at most MaxChanges each.
	Added, Removed []string
	// AddedMore and RemovedMore count the names beyond those. Zero unless MaxChanges names are given.
	AddedMore, RemovedMore uint64
}

// Changes summarises d.
func (d Difference) Changes() Changes {
	var c Changes
	c.Added, c.AddedMore = summarise(d.Added)
	c.Removed, c.RemovedMore = summarise(d.Removed)
	return c
}

func summarise(entries []Entry) (names []string, more uint64) {
	if len(entries) > MaxChanges {
		entries, more = entries[:MaxChanges], uint64(len(entries)-MaxChanges)
	}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names, more
}
