package observe

import (
	"slices"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
)

// changePod takes in what a watch tells of Pods.
func (c *core) changePod(ch Change[snapshot.Pod]) {
	fresh := c.fresh(pods, ch.Version)
	switch ch.Form {
	case Put:
		c.putPod(ch.Item, fresh)
	case Dropped:
		c.dropPod(ch.UID, ch.Version)
	default: // nothing happened
	}
}

// putPod takes in the state of a Pod. One that is not of a sandbox is as good as gone.
func (c *core) putPod(in Item[snapshot.Pod], fresh bool) {
	p, known := c.pods[in.UID]
	switch {
	case !known && !fresh, known && in.Version < p.version:
		c.counts.stale[pods]++
		return
	case known && in.Version == p.version:
		return
	}
	c.pass(pods, in.UID, in.Problem)
	if in.Problem != nil {
		if known {
			c.removePod(p)
		}
		return
	}
	if known {
		in.Value.Follow(&p.value)
		if p.value.Owner != in.Value.Owner { // owners may be edited
			c.removePod(p)
			known = false
		}
	}
	if !known {
		p = &pod{uid: in.UID}
		c.pods[in.UID] = p
		c.owned[in.Value.Owner] = append(c.owned[in.Value.Owner], p)
	}
	p.version, p.value = in.Version, in.Value
	c.refreshOwner(in.Value.Owner)
	c.arrived(in.UID)
}

func (c *core) dropPod(uid string, version uint64) {
	c.pass(pods, uid, nil)
	p, known := c.pods[uid]
	if !known {
		return
	}
	if version < p.version {
		c.counts.stale[pods]++
		return
	}
	c.removePod(p)
}

func (c *core) removePod(p *pod) {
	delete(c.pods, p.uid)
	owner := p.value.Owner
	c.former.add(p.uid, owner, p.value.Supervisor)
	left := slices.DeleteFunc(c.owned[owner], func(other *pod) bool { return other == p })
	if len(left) == 0 {
		delete(c.owned, owner)
	} else {
		c.owned[owner] = left
	}
	c.refreshOwner(owner)
}

// unowned counts the Pods whose Sandbox is not in the view: mostly workload Pods of other gateways, which nothing but their owner tells
// from ours. They are kept, since a Pod may be heard of before its Sandbox.
func (c *core) unowned() (n int) {
	for owner, all := range c.owned {
		if c.boxes[owner] == nil {
			n += len(all)
		}
	}
	return n
}

func (c *core) refreshOwner(uid string) {
	if b := c.boxes[uid]; b != nil {
		c.refresh(b.value.ID)
	}
}

// replacePods takes in a list.
func (c *core) replacePods(list Listing[snapshot.Pod]) error {
	if list.Version < c.newest[pods] {
		return errOlder
	}
	there := make(map[string]struct{}, len(list.Items))
	for i := range list.Items {
		there[list.Items[i].UID] = struct{}{}
	}
	for _, uid := range missing(c.pods, there) {
		c.removePod(c.pods[uid])
	}
	c.keepSkipped(pods, there)
	for i := range list.Items {
		c.putPod(list.Items[i], true)
	}
	first := !c.complete()
	c.health[pods].listed = true
	c.newest[pods] = list.Version
	if first && c.complete() {
		c.renderAll()
	}
	return nil
}
