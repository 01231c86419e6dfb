package reconcile_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
)

// A Sandbox that is created suspended gets no Pod; once it runs it gets one.
func ExampleDecide() {
	sandbox := &api.Sandbox{
		ObjectMeta: metav1.ObjectMeta{Name: "box", Namespace: "ns", UID: "1", Generation: 1},
		Spec:       api.Spec{OperatingMode: api.ModeSuspended},
	}
	show := func() {
		d := reconcile.Decide(reconcile.Observed{Sandbox: sandbox}, reconcile.Newest(), time.Now())
		for _, a := range d.Actions {
			fmt.Println(a.Step, a.Name)
		}
		for _, c := range d.Status.Conditions {
			fmt.Println(c.Type, c.Status, c.Reason)
		}
	}
	show()
	sandbox.Spec.OperatingMode = api.ModeRunning
	show()
	// Output:
	// Suspended True PodTerminated
	// Ready False SandboxSuspended
	// CreatePod box
	// Suspended False NotSuspended
	// PodScheduled Unknown PodSchedulingUnknown
	// Ready False DependenciesNotReady
}
