package observe

import (
	"fmt"
	"testing"
	"time"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

var scheme = workspace.Scheme{Mode: driverconf.ModeShared, GatewayID: "blue", Namespace: "openshell"}

// marker is the type of the condition that tells one state of a sandbox from another in tests.
const marker = "Marker"

// boxItem is a Sandbox object with uid and id; mark is what its state is known by.
func boxItem(uid, id string, version uint64, mark int) Item[snapshot.Sandbox] {
	return Item[snapshot.Sandbox]{UID: uid, Version: version, Value: snapshot.Sandbox{
		ID: id, Name: "n-" + id, Workspace: "team", Namespace: "openshell", Object: "team--" + uid, UID: uid, Pod: "team--" + uid, Version: sandboxapi.V1beta1,
		Mode: sandboxapi.Running, Record: runstate.Record{Generation: "g1", Readiness: runstate.Ready, WorkloadUID: uid + "-w", SupervisorUID: uid + "-s"},
		Conditions: []sandboxapi.Condition{{Type: marker, Status: "True", Message: fmt.Sprint(mark)}, {Type: "Ready", Status: "True", Reason: "DependenciesReady"}},
	}}
}

// podItem is one of the two Pods of the Sandbox object with the uid owner.
func podItem(owner string, version uint64, supervisor, ready bool) Item[snapshot.Pod] {
	uid := owner + "-w"
	if supervisor {
		uid = owner + "-s"
	}
	return Item[snapshot.Pod]{UID: uid, Version: version, Value: snapshot.Pod{
		Namespace: "openshell", Name: uid, UID: uid, Owner: owner, Supervisor: supervisor, Ready: ready,
	}}
}

// eventItem is an event about a Pod.
func eventItem(uid, about string, version uint64, count int32) Item[progress.Event] {
	return Item[progress.Event]{UID: uid, Version: version, Value: progress.Event{
		UID: uid, About: progress.Object{Kind: progress.KindPod, Namespace: "openshell", Name: about, UID: about}, Type: "Normal", Reason: "Pulled", Count: count,
	}}
}

func put[T any](i Item[T]) Change[T] { return Change[T]{Form: Put, Item: i} }

func dropped[T any](uid string, version uint64) Change[T] {
	return Change[T]{Form: Dropped, Item: Item[T]{UID: uid, Version: version}}
}

// markOf is the mark in a snapshot.
func markOf(d *computev1.DriverSandbox) (mark int) {
	for _, c := range d.GetStatus().GetConditions() {
		if c.GetType() == marker {
			_, _ = fmt.Sscan(c.GetMessage(), &mark)
		}
	}
	return mark
}

// said is a message in short.
func said(e *computev1.WatchSandboxesEvent) string {
	switch {
	case e == nil:
		return "nothing"
	case e.GetSandbox() != nil:
		return fmt.Sprintf("%s=%d", e.GetSandbox().GetSandbox().GetId(), markOf(e.GetSandbox().GetSandbox()))
	case e.GetDeleted() != nil:
		return "-" + e.GetDeleted().GetSandboxId()
	}
	p := e.GetPlatformEvent()
	return fmt.Sprintf("%s!%s*%s", p.GetSandboxId(), p.GetEvent().GetReason(), p.GetEvent().GetMetadata()["count"])
}

// listedCore is one that has listed nothing of all.
func listedCore(t testing.TB) *core {
	t.Helper()
	c := newCore()
	must(t, c.replaceBoxes(Listing[snapshot.Sandbox]{Version: 1}))
	must(t, c.replacePods(Listing[snapshot.Pod]{Version: 1}))
	must(t, c.replaceEvents(Listing[progress.Event]{Version: 1}))
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// drain takes all that is owed.
func drain(c *core, to *caller) (all []string) {
	for m := c.next(to); m != nil; m = c.next(to) {
		all = append(all, said(m))
	}
	return all
}

// joined is a caller that has joined.
func joined(c *core, most int) *caller {
	to := newCaller(most)
	c.join(to)
	return to
}

const second = time.Second
