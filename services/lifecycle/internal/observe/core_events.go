package observe

import (
	"cmp"
	"slices"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
)

// changeEvent takes in what a watch tells of events. An event that is forgotten by the cluster tells nothing.
func (c *core) changeEvent(ch Change[progress.Event]) {
	if fresh := c.fresh(events, ch.Version); ch.Form != Put {
		return
	} else if !fresh {
		c.counts.stale[events]++
		return
	}
	c.putEvent(ch.Item)
}

func (c *core) putEvent(in Item[progress.Event]) {
	if in.Problem != nil {
		c.counts.passed[events]++
		return
	}
	c.happened(&in.Value)
}

// replaceEvents takes in a list: what is newer than all that was seen has happened since, and at first nothing has.
func (c *core) replaceEvents(list Listing[progress.Event]) error {
	seen := c.newest[events]
	if list.Version < seen {
		return errOlder
	}
	if c.health[events].listed {
		items := slices.DeleteFunc(slices.Clone(list.Items), func(i Item[progress.Event]) bool { return i.Version <= seen })
		slices.SortFunc(items, func(a, b Item[progress.Event]) int { return cmp.Compare(a.Version, b.Version) })
		for _, i := range items {
			c.putEvent(i)
		}
	}
	c.newest[events], c.health[events].listed = list.Version, true
	return nil
}

// happened passes an event on, or keeps it until what it is about is known.
func (c *core) happened(e *progress.Event) {
	id, role, unknown := c.locate(e)
	switch {
	case unknown != "":
		c.counts.unmapped += uint64(c.waiting.add(unknown, e))
		return
	case id == "":
		c.counts.unmapped++
		return
	case !c.seen.First(e):
		return
	}
	c.warn(e, id)
	told := e.Render(role)
	c.broadcast(func(to *caller) { to.happened(id, told) })
}

// warn keeps, of a Pod that is not ready, what only an event says about why; until another one, or its status, says that it has got further.
func (c *core) warn(e *progress.Event, id string) {
	p := c.pods[e.About.UID]
	if p == nil {
		return
	}
	former, cause := p.value.Warning, p.value.Warning
	if e.Warning() {
		cause = cmp.Or(snapshot.CauseOfWarning(e.Reason, e.Message), cause)
	} else if slices.Contains(further, e.Reason) && (e.Reason != pulling || cause.Kind != snapshot.ImagePull) {
		cause = snapshot.Cause{}
	}
	if p.value.Warn(cause); p.value.Warning != former {
		c.refresh(id)
	}
}

// further are the events of a Pod whose volumes and network are there. That an image is being pulled says nothing of whether it can be.
var further = []string{pulling, "Pulled", "Created", "Started"}

const pulling = "Pulling"

// locate finds the sandbox that an event is about, by the uid of the object and never by its name. unknown is the uid of an object that
// may yet come to be known.
func (c *core) locate(e *progress.Event) (id string, role progress.Role, unknown string) {
	uid := e.About.UID
	if uid == "" {
		return "", 0, ""
	}
	switch e.About.Kind {
	case progress.KindSandbox:
		if b := c.boxes[uid]; b != nil {
			return b.value.ID, progress.Other, ""
		}
		return "", 0, uid
	case progress.KindPod:
		owner, supervisor := c.former.find(uid)
		if p := c.pods[uid]; p != nil {
			owner, supervisor = p.value.Owner, p.value.Supervisor
		}
		b := c.boxes[owner]
		switch {
		case owner == "":
			return "", 0, uid
		case b == nil:
			return "", 0, owner
		case supervisor:
			return b.value.ID, progress.Other, ""
		}
		return b.value.ID, progress.Workload, ""
	}
	return "", 0, ""
}

// arrived passes on what waited for an object.
func (c *core) arrived(uid string) {
	for _, e := range c.waiting.take(uid) {
		c.happened(e)
	}
}

// waitingRoom has events about objects that are not known yet: of three watches, each is at its own place. Events about what never
// comes to be known, which are all events of other workloads in the cluster, push each other out.
type waitingRoom struct {
	most  int
	by    map[string][]*progress.Event
	order []string // of the uids in by, one for each event, the oldest first
}

func newWaitingRoom(most int) waitingRoom {
	return waitingRoom{most: most, by: map[string][]*progress.Event{}}
}

// add keeps an event and says how many it pushed out.
func (w *waitingRoom) add(uid string, e *progress.Event) (out int) {
	w.by[uid] = append(w.by[uid], e)
	w.order = append(w.order, uid)
	for len(w.order) > w.most {
		oldest := w.order[0]
		w.order = w.order[1:]
		if of := w.by[oldest]; len(of) > 1 {
			w.by[oldest] = of[1:]
		} else {
			delete(w.by, oldest)
		}
		out++
	}
	return out
}

func (w *waitingRoom) take(uid string) []*progress.Event {
	all := w.by[uid]
	if len(all) > 0 {
		delete(w.by, uid)
		w.order = slices.DeleteFunc(w.order, func(other string) bool { return other == uid })
	}
	return all
}

// formerPods remembers whose Pods were that are gone: the cluster tells of their end after it.
type formerPods struct {
	most  int
	by    map[string]formerPod
	order []string
}

type formerPod struct {
	owner      string
	supervisor bool
}

func newFormerPods(most int) formerPods { return formerPods{most: most, by: map[string]formerPod{}} }

func (f *formerPods) add(uid, owner string, supervisor bool) {
	if _, known := f.by[uid]; !known {
		f.order = append(f.order, uid)
	}
	f.by[uid] = formerPod{owner: owner, supervisor: supervisor}
	for len(f.order) > f.most {
		delete(f.by, f.order[0])
		f.order = f.order[1:]
	}
}

func (f *formerPods) find(uid string) (owner string, supervisor bool) {
	p := f.by[uid]
	return p.owner, p.supervisor
}
