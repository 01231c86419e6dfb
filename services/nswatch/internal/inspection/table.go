package inspection

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// WriteJSON prints r as one indented object.
func WriteJSON(w io.Writer, r *Report) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteTable prints r for a person: what it is worth, the two records, the namespaces, and the last changes.
func WriteTable(w io.Writer, r *Report) error {
	t := &table{Writer: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row("GATEWAY", r.GatewayID)
	t.row("READ", stamp(r.At))
	if r.Usable {
		t.row("USABLE", "yes")
	}
	for i, p := range r.Problems {
		if i == 0 {
			t.row("USABLE", "no: "+p)
			continue
		}
		t.row("", "and: "+p)
	}
	t.section()
	t.record("SNAPSHOT", r.Snapshot)
	t.section()
	t.record("HEARTBEAT", r.Heartbeat)
	if r.Snapshot != nil && r.Snapshot.List != nil {
		t.namespaces(r.Snapshot.List)
	}
	t.changes(r.Changes)
	return t.Flush()
}

// table aligns columns. What cannot be written shows at Flush.
type table struct{ *tabwriter.Writer }

func (t *table) row(cells ...string) {
	for i, c := range cells {
		if i > 0 {
			_, _ = io.WriteString(t, "\t")
		}
		_, _ = io.WriteString(t, c)
	}
	_, _ = io.WriteString(t, "\n")
}

// section begins anew: the columns above have their own widths.
func (t *table) section() { _, _ = io.WriteString(t, "\n") }

func (t *table) record(title string, r *Record) {
	if r == nil {
		t.row(title, "none")
		return
	}
	switch {
	case r.Verified:
		t.row(title, "verified")
	default:
		t.row(title, "does not count: "+r.Problem)
	}
	t.row("  stored", fmt.Sprintf("%s as sequence %d, %s", stamp(r.Stored), r.Sequence, plural(r.Size, "byte")))
	if l := r.List; l != nil {
		t.row("  published", fmt.Sprintf("%s, %s", stamp(l.PublishedAt), ago(r.AgeMS)))
		t.row("  revision", fmt.Sprintf("%d of epoch %d", l.Revision, l.Epoch))
		t.row("  digest", l.Digest)
		t.row("  writer", l.Writer)
		t.row("  source", fmt.Sprintf("%s %s%s, version %s", l.Source.Kind, l.Source.Selector, l.Source.Path, l.Source.Version))
	}
	if b := r.Beat; b != nil {
		t.row("  published", fmt.Sprintf("%s, %s", stamp(b.PublishedAt), ago(r.AgeMS)))
		t.row("  state", b.State)
		if b.Reason != "" {
			t.row("  reason", b.Reason)
		}
		t.row("  beat", fmt.Sprintf("%d of epoch %d, for revision %d", b.Beat, b.Epoch, b.Revision))
		t.row("  digest", b.Digest)
		t.row("  writer", b.Writer)
		t.row("  proof", fmt.Sprintf("%s, %s old", b.ProofKind, time.Duration(b.ProofAgeMS)*time.Millisecond))
	}
}

func (t *table) namespaces(l *List) {
	t.section()
	if l.Count == 0 {
		t.row("NAMESPACES", "none: the source is empty")
		return
	}
	t.row(fmt.Sprintf("NAMESPACES (%d)", l.Count), "UID")
	for _, n := range l.Namespaces {
		uid := n.UID
		if uid == "" {
			uid = "-"
		}
		t.row(n.Name, uid)
	}
}

func (t *table) changes(all []Record) {
	if len(all) == 0 {
		return
	}
	t.section()
	t.row("CHANGES", "REVISION", "EPOCH", "NAMESPACES", "ADDED", "REMOVED", "WRITER")
	for _, c := range all {
		l := c.List
		if l == nil {
			t.row(stamp(c.Stored), "-", "-", "-", "-", "-", "does not count: "+c.Problem)
			continue
		}
		t.row(stamp(c.Stored), strconv.FormatUint(l.Revision, 10), strconv.FormatUint(l.Epoch, 10), strconv.Itoa(l.Count),
			names(l.Added, l.AddedMore), names(l.Removed, l.RemovedMore), l.Writer)
	}
}
