package observe

import (
	"slices"

	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
)

func equal(a, b *computev1.DriverSandbox) bool { return proto.Equal(a, b) }

// changeBox takes in what a watch tells of Sandboxes.
func (c *core) changeBox(ch Change[snapshot.Sandbox]) {
	fresh := c.fresh(boxes, ch.Version)
	switch ch.Form {
	case Put:
		c.putBox(ch.Item, fresh)
	case Dropped:
		c.dropBox(ch.UID, ch.Version)
	default: // nothing happened
	}
}

// putBox takes in the state of a Sandbox. fresh says that it is newer than all that was seen.
func (c *core) putBox(in Item[snapshot.Sandbox], fresh bool) {
	b, known := c.boxes[in.UID]
	switch {
	case !known && !fresh: // it went meanwhile
		c.counts.stale[boxes]++
		return
	case known && in.Version < b.version, known && in.Version == b.version && b.value.Version == in.Value.Version && in.Problem == nil && b.problem == nil:
		if in.Version < b.version {
			c.counts.stale[boxes]++
		}
		return
	}
	c.pass(boxes, in.UID, in.Problem)
	if in.Problem != nil {
		// What is known of it stays, and is not told: that an object cannot be read does not mean that it is gone.
		if known {
			b.version, b.problem = in.Version, in.Problem
			c.refresh(b.value.ID)
		}
		return
	}
	if known && b.value.ID != in.Value.ID {
		c.removeBox(b)
		known = false
	}
	if !known {
		b = &box{uid: in.UID}
		c.boxes[in.UID] = b
		e := c.ids[in.Value.ID]
		if e == nil {
			e = &entry{id: in.Value.ID}
			c.ids[e.id] = e
		}
		e.boxes = append(e.boxes, b)
	}
	b.version, b.value, b.problem = in.Version, in.Value, nil
	c.refresh(in.Value.ID)
	c.arrived(in.UID)
}

func (c *core) dropBox(uid string, version uint64) {
	c.pass(boxes, uid, nil)
	b, known := c.boxes[uid]
	if !known {
		return
	}
	if version < b.version {
		c.counts.stale[boxes]++
		return
	}
	c.removeBox(b)
}

func (c *core) removeBox(b *box) {
	delete(c.boxes, b.uid)
	e := c.ids[b.value.ID]
	e.boxes = slices.DeleteFunc(e.boxes, func(other *box) bool { return other == b })
	c.refresh(e.id)
}

// replaceBoxes takes in a list. What is not in it is gone, which is told before what is new.
func (c *core) replaceBoxes(list Listing[snapshot.Sandbox]) error {
	if list.Version < c.newest[boxes] {
		return errOlder
	}
	there := make(map[string]struct{}, len(list.Items))
	for i := range list.Items {
		there[list.Items[i].UID] = struct{}{}
	}
	for _, uid := range missing(c.boxes, there) {
		c.removeBox(c.boxes[uid])
	}
	c.keepSkipped(boxes, there)
	first := !c.complete()
	c.health[boxes].listed = true
	for i := range list.Items {
		c.putBox(list.Items[i], true)
	}
	c.newest[boxes] = list.Version
	if first && c.complete() {
		c.renderAll()
	}
	return nil
}

// missing are the keys of known that are not there, in order.
func missing[T any](known map[string]T, there map[string]struct{}) []string {
	var gone []string
	for uid := range known {
		if _, ok := there[uid]; !ok {
			gone = append(gone, uid)
		}
	}
	slices.Sort(gone)
	return gone
}

func (c *core) keepSkipped(k kind, there map[string]struct{}) {
	for _, uid := range missing(c.skipped[k], there) {
		delete(c.skipped[k], uid)
	}
}

// ambiguous counts the ids that more than one object has.
func (c *core) ambiguous() (n int) {
	for _, e := range c.ids {
		if len(e.boxes) > 1 {
			n++
		}
	}
	return n
}
