package allowlist

import (
	"errors"
	"fmt"
)

// stamp orders the lists of a gateway: by epoch, then by revision; see compare.
type stamp struct{ epoch, revision uint64 }

// Marks are the highest values that a reader has accepted (rule R2). Nothing lower is ever accepted again. The zero
// Marks are those of a reader without memory. A shell with a disk stores them, before it uses the View of the Step
// that changed them, and gives them to NewReader after a restart.
type Marks struct {
	// Epoch and Revision of the highest list that a verified record named, and its Digest.
	Epoch, Revision uint64
	Digest          Digest
	// Beat is the highest beat of Epoch.
	Beat uint64
	// Forked says that two lists of one revision were seen in Epoch.
	Forked bool
}

func (m Marks) stamp() stamp { return stamp{m.Epoch, m.Revision} }

func (m Marks) check() error {
	if m == (Marks{}) {
		return nil
	}
	if err := checkStamp(m.Epoch, m.Revision); err != nil {
		return err
	}
	if m.Digest.IsZero() {
		return errors.New("no digest")
	}
	if m.Beat > maxWhole {
		return fmt.Errorf("beat %d is more than %d", m.Beat, uint64(maxWhole))
	}
	return nil
}

// EncodeMarks gives m the form of a file, one line of JSON. The gateway goes with it, so that the marks of one are
// never taken for those of another.
func EncodeMarks(gatewayID string, m Marks) []byte {
	b := appendWhole(nil, `{"schema":`, Schema)
	b = appendString(b, `,"gateway_id":`, gatewayID)
	b = appendWhole(b, `,"epoch":`, m.Epoch)
	b = appendWhole(b, `,"revision":`, m.Revision)
	b = appendString(b, `,"digest":`, m.Digest.String())
	b = appendWhole(b, `,"beat":`, m.Beat)
	b = append(b, `,"forked":`...)
	if m.Forked {
		return append(b, "true}\n"...)
	}
	return append(b, "false}\n"...)
}

// DecodeMarks accepts exactly what EncodeMarks writes for this gateway. A reader whose marks cannot be read may start
// with the zero Marks: rule R4 stands between it and a recorded stream.
func DecodeMarks(gatewayID string, file []byte) (Marks, error) {
	c := &cursor{s: string(file), what: "high-water marks"}
	var m Marks
	o := c.object("schema", "gateway_id", "epoch", "revision", "digest", "beat", "forked")
	readSchema(o)
	o.field("gateway_id")
	id := c.text(gatewayProblem)
	o.field("epoch")
	m.Epoch = c.whole(0, maxWhole)
	o.field("revision")
	m.Revision = c.whole(0, maxWhole)
	o.field("digest")
	m.Digest = c.digest()
	o.field("beat")
	m.Beat = c.whole(0, maxWhole)
	o.field("forked")
	if m.Forked = c.skip("true"); !m.Forked {
		c.literal("false")
	}
	o.end()
	c.literal("\n")
	if err := c.done(); err != nil {
		return Marks{}, err
	}
	if id != gatewayID {
		return Marks{}, fmt.Errorf("the high-water marks are those of gateway %s, not %s: remove the file, or correct its path", quote(id), quote(gatewayID))
	}
	if err := m.check(); err != nil {
		return Marks{}, fmt.Errorf("high-water marks: %w", err)
	}
	return m, nil
}
