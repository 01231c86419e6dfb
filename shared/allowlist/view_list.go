package allowlist

import (
	"maps"
	"slices"
	"strings"
)

// Granted are the entries that v says yes to at the instant now, by name; none unless v is Fresh. It costs as much as
// the list is long: Check is the way to ask for one namespace.
func (v *View) Granted(now Instant) []Entry {
	if v.Condition(now).State != Fresh {
		return nil
	}
	granted := v.granted()
	entries := make([]Entry, 0, len(granted))
	for name, uid := range granted {
		entries = append(entries, Entry{Name: name, UID: uid})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries
}

// granted is what v says yes to while it is Fresh; not to be changed.
func (v *View) granted() map[string]string {
	if v.pending == nil && v.bound == nil {
		return v.proven
	}
	kept := maps.Clone(v.proven)
	maps.DeleteFunc(kept, func(name, uid string) bool { return !v.grants(name, uid) })
	return kept
}

// grants reports whether v says yes to name, with this uid, while it is Fresh.
func (v *View) grants(name, uid string) bool {
	return holds(v.proven, name, uid) && (v.pending == nil || holds(v.pending, name, uid)) && (v.bound == nil || v.bound.grants(name, uid))
}

func holds(list map[string]string, name, uid string) bool {
	held, ok := list[name]
	return ok && held == uid
}

// SameList reports whether two Views of one Reader say yes to the same names at any instant at which both are Fresh.
// It may say false of lists that are equal; it compares revisions, not names.
func (v *View) SameList(other *View) bool {
	if v == nil || other == nil {
		return v == other
	}
	// A list is vouched for or pending, or within a bound: with those the same, so is the list.
	return v.stamp == other.stamp && (v.pending == nil) == (other.pending == nil) && len(v.proven) == len(other.proven) && v.bound == other.bound
}

// Within is v without every yes that bound, an earlier View of the same Reader, would not give while it is Fresh. A
// shell that could not store the Marks of v publishes this instead, with the last View whose marks are stored as bound
// (rule R2): a namespace that v removed is refused at once, one that it added is Behind. A v that is not Fresh is
// returned as it is, and without a Fresh bound nothing is granted. It costs the same however long the lists are, and keeps
// those of bound.
func (v *View) Within(bound *View) *View {
	if v == nil || v.condition.State != Fresh {
		return v
	}
	if bound == nil || bound.condition.State != Fresh {
		return &View{stamp: v.stamp, wall: v.wall}
	}
	within := *v
	within.bound = bound
	return &within
}
