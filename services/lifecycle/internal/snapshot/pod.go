package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Pod is what is kept of one of the two Pods of a sandbox. Make it with ReadPod.
type Pod struct {
	Namespace, Name, UID string
	// Owner is the uid of the Sandbox object that it belongs to.
	Owner string
	// Supervisor tells the supervisor Pod from the workload Pod.
	Supervisor bool
	// Ended says that it is Succeeded or Failed, Ready that it runs and its status says so.
	Deleting, Ended, Ready bool
	// Begun is how many of its containers run or have run, those of the start included; AllBegun that it is every one of them. What kept
	// one from beginning is over then.
	Begun    uint16
	AllBegun bool
	// Cause is why it is not ready, as far as its status says.
	Cause Cause
	// Warning is why its containers do not begin, as an event said; whoever keeps the Pod sets it, with Warn.
	Warning Cause
}

// ReadPod takes what is kept of a Pod. The error wraps ErrForeign when it is neither a workload Pod that a Sandbox controls nor a
// supervisor Pod that a Sandbox owns, when its label or its namespace says that it is another gateway's, and ErrMalformed when it has no
// uid. A workload Pod has no label of a gateway (contract 4.3): outside of shared and managed mode only its owner says whose it is.
func ReadPod(p *corev1.Pod, scheme workspace.Scheme) (Pod, error) {
	fail := func(kind error, why string) (Pod, error) {
		return Pod{}, fmt.Errorf("the Pod %s/%s is passed over: %w: %s", p.Namespace, p.Name, kind, why)
	}
	if p.UID == "" || p.Name == "" || p.Namespace == "" {
		return fail(ErrMalformed, "it lacks a name, a namespace or a uid")
	}
	if of := p.Labels[workspace.LabelGatewayID]; of != "" && of != scheme.GatewayID {
		return fail(ErrForeign, fmt.Sprintf("its label %s is %.64q", workspace.LabelGatewayID, of))
	}
	if scheme.Mode != driverconf.ModeOperator && !scheme.MayHold(p.Namespace) {
		return fail(ErrForeign, "no sandbox of this gateway can be in its namespace")
	}
	owner, err := sandboxapi.OwnerOf(p.OwnerReferences)
	if err != nil {
		return fail(ErrForeign, err.Error())
	}
	role := p.Labels[workspace.LabelBoundaryRole]
	if role == workspace.RoleWorkload != owner.Controller || role != workspace.RoleWorkload && role != workspace.RoleSupervisor {
		return fail(ErrForeign, fmt.Sprintf("its label %s is %.64q, and its owner controls it: %t", workspace.LabelBoundaryRole, role, owner.Controller))
	}
	kept := Pod{
		Namespace: strings.Clone(p.Namespace), Name: strings.Clone(p.Name), UID: strings.Clone(string(p.UID)), Owner: strings.Clone(owner.UID),
		Supervisor: role == workspace.RoleSupervisor, Deleting: p.DeletionTimestamp != nil,
		Ended: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Ready: p.Status.Phase == corev1.PodRunning && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}),
	}
	if !kept.Ready {
		kept.Cause = causeOf(&p.Status)
	}
	kept.Begun = begun(p.Status.InitContainerStatuses) + begun(p.Status.ContainerStatuses)
	kept.AllBegun = len(p.Spec.Containers) > 0 && int(kept.Begun) >= len(p.Spec.InitContainers)+len(p.Spec.Containers)
	return kept, nil
}

func begun(all []corev1.ContainerStatus) (n uint16) {
	for i := range all {
		if c := &all[i]; c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil {
			n++
		}
	}
	return n
}

// Warn keeps what an event said, unless the Pod's status says that it is past that. A kubelet's events are no full account: it leaves out
// those that it has many of, and those that say that it went well after all are among them.
func (p *Pod) Warn(c Cause) {
	if p.Ready || p.AllBegun {
		c = Cause{}
	}
	p.Warning = c
}

// Follow takes over the warning of the same Pod's former state, unless it has got further since.
func (p *Pod) Follow(former *Pod) {
	if p.Begun <= former.Begun {
		p.Warn(former.Warning)
	}
}

// Pods are the Pods of one sandbox. The zero Pods are not known.
type Pods struct {
	// Known says that the cluster's Pods were listed; without it, that there is no Pod means nothing.
	Known bool
	// Workload and Supervisor are nil when there is none.
	Workload, Supervisor *Pod
}

// Pick chooses, of all Pods that belong to a Sandbox, the two that its run is about: those that its record names, else those that are
// not going. known is Pods.Known. What it returns points into all.
func Pick(s *Sandbox, all []*Pod, known bool) Pods {
	pods := Pods{Known: known}
	for _, p := range all {
		if p.Owner != s.UID || p.Namespace != s.Namespace {
			continue
		}
		place, recorded := &pods.Workload, s.Record.WorkloadUID
		if p.Supervisor {
			place, recorded = &pods.Supervisor, s.Record.SupervisorUID
		}
		if *place == nil || before(p, *place, recorded) {
			*place = p
		}
	}
	return pods
}

// before reports whether a is rather meant than b.
func before(a, b *Pod, recorded string) bool {
	rank := func(p *Pod) int {
		switch {
		case p.UID == recorded:
			return 0
		case !p.Deleting && !p.Ended:
			return 1
		case !p.Deleting:
			return 2
		}
		return 3
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a.UID, b.UID)) < 0
}

// obstacle is why the Pods do not make a sandbox ready, and "" when they do or when nothing is known of them (contract 7.13:
// what is not known changes nothing).
func (s *Sandbox) obstacle(pods *Pods) string {
	if !pods.Known {
		return ""
	}
	return cmp.Or(
		hindrance("workload", pods.Workload, s.Record.WorkloadUID),
		hindrance("supervisor", pods.Supervisor, s.Record.SupervisorUID),
	)
}

// hindrance is what is wrong with one of the Pods of a released run.
func hindrance(which string, p *Pod, recorded string) string {
	switch {
	case p == nil:
		return "the " + which + " Pod is gone"
	case p.UID != recorded:
		return join("the "+which+" Pod is not the one of this run", p.why())
	case p.Ready && !p.Deleting:
		return ""
	}
	if why := p.why(); why != "" {
		return which + " Pod: " + why
	}
	switch {
	case p.Deleting:
		return "the " + which + " Pod is being deleted"
	case p.Ended:
		return "the " + which + " Pod has ended"
	}
	return "the " + which + " Pod is not ready"
}

// why is what is known of why the Pod is not ready; empty when nothing is.
func (p *Pod) why() string {
	if p == nil || p.Ready {
		return ""
	}
	return cmp.Or(p.Cause, p.Warning).String()
}
