package allowlist

import (
	"bytes"
	"errors"
	"fmt"
)

// encode writes the canonical payload.
func (s *Snapshot) encode() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	b := make([]byte, 0, 1024+128*len(s.Namespaces.entries))
	b = appendWhole(b, `{"schema":`, Schema)
	b = appendString(b, `,"gateway_id":`, s.GatewayID)
	b = appendWhole(b, `,"epoch":`, s.Epoch)
	b = appendWhole(b, `,"revision":`, s.Revision)
	b = appendString(b, `,"previous":`, s.Previous.String())
	b = appendString(b, `,"writer":`, s.Writer)
	b = appendTime(b, `,"published_at":`, s.PublishedAt)
	b = appendString(b, `,"source":{"kind":`, s.Source.Kind.String())
	if s.Source.Kind == SourceFile {
		b = appendString(b, `,"path":`, s.Source.Path)
	} else {
		b = appendString(b, `,"selector":`, s.Source.Selector)
	}
	b = appendString(b, `,"version":`, s.Source.Version)
	b = append(b, `},"namespaces":[`...)
	for i, e := range s.Namespaces.entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, `{"name":`, e.Name)
		b = append(appendString(b, `,"uid":`, e.UID), '}')
	}
	b = appendNames(b, `],"changes":{"added":`, s.Changes.Added)
	if s.Changes.AddedMore > 0 {
		b = appendWhole(b, `,"added_more":`, s.Changes.AddedMore)
	}
	b = appendNames(b, `,"removed":`, s.Changes.Removed)
	if s.Changes.RemovedMore > 0 {
		b = appendWhole(b, `,"removed_more":`, s.Changes.RemovedMore)
	}
	b = append(b, `}}`...)
	if len(b) > MaxPayload {
		return nil, fmt.Errorf("encode snapshot: %w: the payload has %d bytes, at most %d are allowed", ErrTooLarge, len(b), MaxPayload)
	}
	return b, nil
}

// decodeSnapshot accepts exactly what encode writes.
func decodeSnapshot(payload []byte) (Snapshot, error) {
	c := &cursor{s: string(payload), what: "snapshot payload"}
	var s Snapshot
	o := c.object("schema", "gateway_id", "epoch", "revision", "previous", "writer", "published_at", "source", "namespaces", "changes")
	readSchema(o)
	o.field("gateway_id")
	s.GatewayID = c.text(gatewayProblem)
	o.field("epoch")
	s.Epoch = c.whole(1, maxWhole)
	o.field("revision")
	s.Revision = c.whole(1, maxWhole)
	o.field("previous")
	s.Previous = c.digest()
	o.field("writer")
	s.Writer = c.text(func(t string) string { return tokenProblem(t, maxWriter) })
	o.field("published_at")
	s.PublishedAt = c.instant()
	o.field("source")
	s.Source = readSource(c)
	o.field("namespaces")
	s.Namespaces = readNamespaces(c)
	o.field("changes")
	s.Changes = readChanges(c)
	o.end()
	if err := c.done(); err != nil {
		return Snapshot{}, err
	}
	return s, sameBytes(payload, s.encode)
}

var errCanonical = errors.New("the payload is not in its canonical form")

// sameBytes is the last word on canonical form: what was decoded must encode to the bytes that came. encode also
// repeats every check across fields.
func sameBytes(payload []byte, encode func() ([]byte, error)) error {
	again, err := encode()
	if err != nil {
		return err
	}
	if !bytes.Equal(again, payload) {
		return errCanonical
	}
	return nil
}

func readSchema(o *object) {
	o.field("schema")
	if n := o.whole(1, maxWhole); o.err == nil && n != Schema {
		o.fail("schema %d is unknown, this build reads schema %d: update it", n, Schema)
	}
}

func gatewayProblem(id string) string {
	if err := CheckGatewayID(id); err != nil {
		return "is no gateway id: " + err.Error()
	}
	return ""
}

func readSource(c *cursor) (s Source) {
	text := func(t string) string { return textProblem(t, maxText) }
	o := c.object("kind", "selector", "path", "version")
	o.field("kind")
	if c.word(SourceLabel.String(), SourceFile.String()) == SourceFile.String() {
		s.Kind = SourceFile
		o.field("path")
		s.Path = c.text(text)
	} else {
		s.Kind = SourceLabel
		o.field("selector")
		s.Selector = c.text(text)
	}
	o.field("version")
	s.Version = c.text(func(t string) string { return tokenProblem(t, maxVersion) })
	o.end()
	return s
}

// leastEntry is the length of the shortest entry with its comma: an upper bound for how many fit into a payload.
const leastEntry = len(`{"name":"a","uid":""},`)

func readNamespaces(c *cursor) List {
	c.literal("[")
	if c.skip("]") || c.err != nil {
		return List{}
	}
	entries := make([]Entry, 0, min((len(c.s)-c.at)/leastEntry+1, MaxNames))
	for last := ""; ; {
		o := c.object("name", "uid")
		o.field("name")
		e := Entry{Name: c.text(labelProblem)}
		if c.err == nil && e.Name <= last {
			c.fail("namespace %s does not follow %s: names stand in order, each once", e.Name, last)
		}
		o.field("uid")
		if !c.skip(`""`) {
			e.UID = c.text(func(t string) string { return tokenProblem(t, maxUID) })
		}
		o.end()
		if len(entries) == MaxNames {
			c.fail("the list has more than %d namespaces", MaxNames)
		}
		if c.err != nil {
			return List{}
		}
		entries, last = append(entries, e), e.Name
		if !c.skip(",") {
			break
		}
	}
	c.literal("]")
	return List{entries: entries}
}

func readChanges(c *cursor) (ch Changes) {
	o := c.object("added", "added_more", "removed", "removed_more")
	o.field("added")
	ch.Added = readNames(c)
	if o.optional("added_more") {
		ch.AddedMore = c.whole(1, MaxNames)
	}
	o.field("removed")
	ch.Removed = readNames(c)
	if o.optional("removed_more") {
		ch.RemovedMore = c.whole(1, MaxNames)
	}
	o.end()
	return ch
}

// readNames leaves the order to Changes.check.
func readNames(c *cursor) (names []string) {
	c.literal("[")
	if c.skip("]") {
		return nil
	}
	for c.err == nil {
		if len(names) == MaxChanges {
			c.fail("more than %d names", MaxChanges)
			return nil
		}
		names = append(names, c.text(labelProblem))
		if !c.skip(",") {
			c.literal("]")
			return names
		}
	}
	return nil
}
