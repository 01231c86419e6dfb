package allowlist

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Candidate is one namespace as a source gives it.
type Candidate struct {
	Name string
	// UID is empty when the source is a file.
	UID string
	// Terminating says that the namespace is being deleted.
	Terminating bool
}

// RefusalCause says why a candidate is not published. The zero value is no cause.
type RefusalCause uint8

// The causes, in the order in which they are looked for.
const (
	// InvalidName: not a DNS-1123 label.
	InvalidName RefusalCause = iota + 1
	// Reserved: the name is on the refusal list.
	Reserved
	// Terminating: the namespace is being deleted.
	Terminating
	// InvalidUID: the uid is not one.
	InvalidUID
	// AmbiguousUID: two candidates of this name have different uids.
	AmbiguousUID
)

// String is the cause as a metric label.
func (c RefusalCause) String() string {
	switch c {
	case InvalidName:
		return "invalid_name"
	case Reserved:
		return "reserved"
	case Terminating:
		return "terminating"
	case InvalidUID:
		return "invalid_uid"
	case AmbiguousUID:
		return "ambiguous_uid"
	default:
		return "none"
	}
}

// Refusal is one candidate that is not published.
type Refusal struct {
	Candidate Candidate
	Cause     RefusalCause
}

// Refusals are the names that are never published, whatever the source says (rule W7). The zero value refuses
// nothing.
type Refusals struct {
	names, prefixes []string
}

var errPattern = errors.New("want a namespace name, or the beginning of one followed by a single *")

// ParseRefusals reads patterns: a name, or a prefix that ends in *, such as "kube-*". A lone * would refuse
// everything and is an error.
func ParseRefusals(patterns ...string) (Refusals, error) {
	var r Refusals
	for _, p := range patterns {
		prefix, isPrefix := strings.CutSuffix(p, "*")
		// A prefix may end in -, which a whole name may not.
		if whole := strings.TrimRight(prefix, "-"); CheckNamespace(whole) != nil || !isPrefix && whole != p {
			return Refusals{}, fmt.Errorf("refused namespace %s: %w", quote(p), errPattern)
		}
		if isPrefix {
			r.prefixes = append(r.prefixes, prefix)
		} else {
			r.names = append(r.names, p)
		}
	}
	return r, nil
}

// Match reports whether name is refused.
func (r Refusals) Match(name string) bool {
	return slices.Contains(r.names, name) ||
		slices.ContainsFunc(r.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// Select splits what a source gives into the list to publish and the candidates that are refused (rule W7), the
// latter by name. Equal candidates are merged. A name that any of its candidates makes ambiguous or Terminating is
// not published at all. candidates are not changed; it costs a fifth when they are sorted by name.
func Select(candidates []Candidate, refusals Refusals) (List, []Refusal) {
	sorted := candidates
	byName := func(a, b Candidate) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(sorted, byName) {
		sorted = slices.Clone(candidates)
		slices.SortStableFunc(sorted, byName)
	}
	entries := make([]Entry, 0, len(sorted))
	var refused []Refusal
	for len(sorted) > 0 {
		n, differ := 1, false
		for n < len(sorted) && sorted[n].Name == sorted[0].Name {
			differ = differ || sorted[n] != sorted[0]
			n++
		}
		cause := RefusalCause(0)
		for _, c := range sorted[:n] {
			cause = max(cause, refusalOf(c, refusals))
		}
		if cause == 0 && differ {
			cause = AmbiguousUID
		}
		if cause == 0 {
			entries = append(entries, Entry{Name: sorted[0].Name, UID: sorted[0].UID})
		} else {
			refused = append(refused, Refusal{Candidate: sorted[0], Cause: cause})
		}
		sorted = sorted[n:]
	}
	return List{entries: entries}, refused
}

func refusalOf(c Candidate, refusals Refusals) RefusalCause {
	switch {
	case CheckNamespace(c.Name) != nil:
		return InvalidName
	case refusals.Match(c.Name):
		return Reserved
	case c.Terminating:
		return Terminating
	case c.UID != "" && tokenProblem(c.UID, maxUID) != "":
		return InvalidUID
	default:
		return 0
	}
}
