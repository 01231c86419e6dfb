package authenticate

import (
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func judgePodFound(run *evaluation) finding {
	q := Question{Subject: SubjectPod, Namespace: run.bearer.Namespace, Name: run.bearer.PodName}
	found := lookup(run.facts.Pod, q, verdict.PodLookupFailed, verdict.PodNotFound)
	if got := run.facts.Pod.value; found.goesOn() && (got.Name != q.Name || got.Namespace != q.Namespace) {
		return refuse(verdict.PodLookupFailed, "the API server answered for %s with %s in namespace %s", q, quote(got.Name), quote(got.Namespace))
	}
	return found
}

func judgePodUID(run *evaluation) finding {
	if live := string(run.facts.Pod.value.UID); live != run.bearer.PodUID {
		return refuse(verdict.PodReplaced, "Pod %s has the uid %s, the token is bound to uid %s", quote(run.bearer.PodName), quote(live), quote(run.bearer.PodUID))
	}
	return pass()
}

func showPod(run *evaluation) string {
	return fmt.Sprintf("Pod %s has the uid %s", quote(run.facts.Pod.value.Name), quote(string(run.facts.Pod.value.UID)))
}

func judgePodDeletion(run *evaluation) finding {
	if run.facts.Pod.value.DeletionTimestamp != nil {
		return refuse(verdict.PodTerminating, "Pod %s is being deleted", quote(run.bearer.PodName))
	}
	return pass()
}

func judgePodAnnotation(run *evaluation) finding {
	annotations := run.facts.Pod.value.Annotations
	id, conflict := workspace.SandboxIDOf(annotations)
	if conflict {
		return refuse(verdict.PodSandboxIDConflict, "annotation %s is %s, and %s is %s",
			workspace.AnnotationSandboxID, quote(annotations[workspace.AnnotationSandboxID]),
			workspace.AnnotationSandboxIDFormer, quote(annotations[workspace.AnnotationSandboxIDFormer]))
	}
	run.bearer.SandboxID = id
	return pass()
}

func judgePodSandbox(run *evaluation) finding {
	if run.bearer.SandboxID == "" {
		return refuse(verdict.PodSandboxIDMissing, "Pod %s has no annotation %s, and none %s",
			quote(run.bearer.PodName), workspace.AnnotationSandboxID, workspace.AnnotationSandboxIDFormer)
	}
	return pass()
}

func showPodAnnotations(run *evaluation) string {
	return fmt.Sprintf("the Pod's annotations name sandbox %s", quote(run.bearer.SandboxID))
}

// judgePodPairing looks at supervisors only; other Pods are judged on, so that the refusal of a workload Pod that is
// otherwise right is the one that contract 6.1 has for it.
func judgePodPairing(run *evaluation) finding {
	pod, id := run.facts.Pod.value, run.bearer.SandboxID
	role := pod.Labels[workspace.LabelBoundaryRole]
	run.supervisor = role == workspace.RoleSupervisor
	if !run.supervisor {
		return skip(fmt.Sprintf("label %s is %s: the Pod is no supervisor", workspace.LabelBoundaryRole, quote(role)))
	}
	if got, want := pod.Labels[workspace.LabelBoundaryPair], workspace.Pair(id); got != want {
		return refuse(verdict.PodPairingMismatch, "label %s is %s, not %s", workspace.LabelBoundaryPair, quote(got), quote(want))
	}
	if got := pod.Labels[workspace.LabelSandboxID]; got != id {
		return refuse(verdict.PodPairingMismatch, "label %s is %s, not %s", workspace.LabelSandboxID, quote(got), quote(id))
	}
	if want := workspace.SupervisorPod(id); pod.Name != want {
		return refuse(verdict.PodPairingMismatch, "the supervisor Pod of sandbox %s is called %s, not %s", quote(id), quote(want), quote(pod.Name))
	}
	return pass()
}

func showPodPairing(run *evaluation) string {
	return fmt.Sprintf("Pod %s is the supervisor of sandbox %s by its labels and its name", quote(run.bearer.PodName), quote(run.bearer.SandboxID))
}

func judgePodOwner(run *evaluation) finding {
	owner, err := sandboxapi.OwnerOf(run.facts.Pod.value.OwnerReferences)
	if err != nil {
		return refuse(verdict.PodOwnerInvalid, "the owners of Pod %s: %s", quote(run.bearer.PodName), err)
	}
	run.owner, run.bearer.SandboxUID = owner, owner.UID
	return pass()
}

func judgePodController(run *evaluation) finding {
	switch {
	case run.supervisor && run.owner.Controller:
		return refuse(verdict.PodOwnerController, "Sandbox %s is the controller of the supervisor Pod, which only a workload Pod may have", quote(run.owner.Name))
	case !run.supervisor && !run.owner.Controller:
		return refuse(verdict.PodOwnerController, "Sandbox %s is not the controller of the Pod, which only a supervisor Pod may lack", quote(run.owner.Name))
	}
	return pass()
}

func showPodOwner(run *evaluation) string {
	return fmt.Sprintf("the Pod's owner is Sandbox %s with uid %s, read through %s, as controller %v",
		quote(run.owner.Name), quote(run.owner.UID), run.owner.Version, run.owner.Controller)
}

func judgeSupervisor(run *evaluation) finding {
	if !run.supervisor {
		return refuse(verdict.NotSupervisor, "label %s of Pod %s is %s, not %s", workspace.LabelBoundaryRole, quote(run.bearer.PodName),
			quote(run.facts.Pod.value.Labels[workspace.LabelBoundaryRole]), workspace.RoleSupervisor)
	}
	return pass()
}
