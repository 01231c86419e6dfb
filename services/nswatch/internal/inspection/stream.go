package inspection

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
)

// line is one line of JSON of watch: a record, or why there is none for now.
type line struct {
	*Record
	Interrupted string `json:"interrupted,omitempty"`
}

// WriteJSONLine prints one change as an object on one line.
func WriteJSONLine(w io.Writer, c allowkv.Change) error {
	var l line
	if c.Record != nil {
		r := newRecord(c.Record)
		l.Record = &r
	}
	if c.Interrupted != nil {
		l.Interrupted = clean(c.Interrupted.Error())
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(l)
}

// WriteLine prints one change on one line: when it was stored, on which key, and what it says.
func WriteLine(w io.Writer, c allowkv.Change) error {
	if c.Record == nil {
		text := "no reason is known"
		if c.Interrupted != nil {
			text = clean(c.Interrupted.Error())
		}
		_, err := fmt.Fprintf(w, "%-24s  %-9s  %s\n", "-", "-", "interrupted: "+text)
		return err
	}
	r := newRecord(c.Record)
	kind := r.Key[strings.LastIndexByte(r.Key, '.')+1:]
	_, err := fmt.Fprintf(w, "%-24s  %-9s  %s\n", stamp(r.Stored), kind, says(&r))
	return err
}

func says(r *Record) string {
	switch {
	case r.List != nil:
		l := r.List
		return fmt.Sprintf("revision %d of epoch %d: %s, added %s, removed %s, by %s",
			l.Revision, l.Epoch, plural(l.Count, "namespace"), names(l.Added, l.AddedMore), names(l.Removed, l.RemovedMore), l.Writer)
	case r.Beat != nil:
		b := r.Beat
		state := b.State
		if b.Reason != "" {
			state += " (" + b.Reason + ")"
		}
		return fmt.Sprintf("beat %d of epoch %d: %s, for revision %d, by %s", b.Beat, b.Epoch, state, b.Revision, b.Writer)
	default:
		return "does not count: " + r.Problem
	}
}
