package authenticate

import (
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func judgeSandboxFound(run *evaluation) finding {
	q := Question{Subject: SubjectSandbox, Namespace: run.bearer.Namespace, Name: run.owner.Name, Version: run.owner.Version}
	found := lookup(run.facts.Sandbox, q, verdict.SandboxLookupFailed, verdict.SandboxNotFound)
	if got := run.facts.Sandbox.value; found.goesOn() && (got.Name != q.Name || got.Namespace != q.Namespace) {
		return refuse(verdict.SandboxLookupFailed, "the API server answered for %s with %s in namespace %s", q, quote(got.Name), quote(got.Namespace))
	}
	return found
}

func judgeSandboxUID(run *evaluation) finding {
	if live := run.facts.Sandbox.value.UID; live != run.owner.UID {
		return refuse(verdict.SandboxReplaced, "Sandbox %s has the uid %s, the Pod's owner has uid %s", quote(run.owner.Name), quote(live), quote(run.owner.UID))
	}
	return pass()
}

func showSandbox(run *evaluation) string {
	return fmt.Sprintf("Sandbox %s has the uid %s", quote(run.owner.Name), quote(run.facts.Sandbox.value.UID))
}

func judgeSandboxID(run *evaluation) finding {
	if got := run.facts.Sandbox.value.Labels[workspace.LabelSandboxID]; got != run.bearer.SandboxID {
		return refuse(verdict.SandboxIDMismatch, "label %s of Sandbox %s is %s, the Pod names sandbox %s",
			workspace.LabelSandboxID, quote(run.owner.Name), quote(got), quote(run.bearer.SandboxID))
	}
	return pass()
}

func showSandboxID(run *evaluation) string {
	return fmt.Sprintf("label %s is %s", workspace.LabelSandboxID, quote(run.facts.Sandbox.value.Labels[workspace.LabelSandboxID]))
}

func judgeSandboxDeletion(run *evaluation) finding {
	if run.facts.Sandbox.value.Deleting {
		return refuse(verdict.SandboxTerminating, "Sandbox %s is being deleted", quote(run.owner.Name))
	}
	return pass()
}

// judgeSandboxManaged: every selector of contract 4.5 demands the label, so a Sandbox without it is one that the gateway never
// sees, and may be anybody's.
func judgeSandboxManaged(run *evaluation) finding {
	if got := run.facts.Sandbox.value.Labels[workspace.LabelManagedBy]; got != workspace.ManagedByOpenShell {
		return refuse(verdict.SandboxNotManaged, "label %s of Sandbox %s is %s, not %s", workspace.LabelManagedBy, quote(run.owner.Name), quote(got), workspace.ManagedByOpenShell)
	}
	return pass()
}

func showSandboxManaged(run *evaluation) string {
	return fmt.Sprintf("label %s is %s", workspace.LabelManagedBy, quote(run.facts.Sandbox.value.Labels[workspace.LabelManagedBy]))
}

func judgeSandboxGateway(run *evaluation) finding {
	got, ok := run.facts.Sandbox.value.Labels[workspace.LabelGatewayID]
	if !ok {
		return refuse(verdict.SandboxOtherGateway, "Sandbox %s has no label %s, so it is nobody's", quote(run.owner.Name), workspace.LabelGatewayID)
	}
	if ours := run.policy.Scheme.GatewayID; got != ours {
		return refuse(verdict.SandboxOtherGateway, "label %s of Sandbox %s is %s, not %s", workspace.LabelGatewayID, quote(run.owner.Name), quote(got), quote(ours))
	}
	return pass()
}

func showSandboxGateway(run *evaluation) string {
	return fmt.Sprintf("label %s is %s", workspace.LabelGatewayID, quote(run.facts.Sandbox.value.Labels[workspace.LabelGatewayID]))
}

func judgeSandboxWorkspace(run *evaluation) finding {
	if run.mode() != driverconf.ModeManaged {
		return skip("only in managed mode names of namespaces are made from workspaces")
	}
	if err := run.policy.Scheme.Places(run.facts.Sandbox.value.Labels[workspace.LabelSandboxWorkspace], run.bearer.Namespace); err != nil {
		return refuse(verdict.SandboxOtherNamespace, "label %s of Sandbox %s: %s", workspace.LabelSandboxWorkspace, quote(run.owner.Name), err)
	}
	return pass()
}

func showSandboxWorkspace(run *evaluation) string {
	return fmt.Sprintf("workspace %s of gateway %s lives in namespace %s", quote(run.facts.Sandbox.value.Labels[workspace.LabelSandboxWorkspace]),
		quote(run.policy.Scheme.GatewayID), quote(run.bearer.Namespace))
}

// recorded is the uid of the supervisor that the Sandbox names. It is written before the Pod's gate is lifted (contract
// 7.2, 7.11), so a supervisor that is able to call finds itself recorded, or is left over.
func (run *evaluation) recorded() string {
	return run.facts.Sandbox.value.Annotations[workspace.AnnotationSupervisorUID]
}

func judgeSupervisorRecorded(run *evaluation) finding {
	if run.recorded() == "" {
		return refuse(verdict.SupervisorNotRecorded, "Sandbox %s has no annotation %s", quote(run.owner.Name), workspace.AnnotationSupervisorUID)
	}
	return pass()
}

func judgeSupervisorCurrent(run *evaluation) finding {
	if got := run.recorded(); got != run.bearer.PodUID {
		return refuse(verdict.SupervisorNotCurrent, "annotation %s of Sandbox %s is %s, the Pod's uid is %s",
			workspace.AnnotationSupervisorUID, quote(run.owner.Name), quote(got), quote(run.bearer.PodUID))
	}
	return pass()
}

func showSupervisor(run *evaluation) string {
	return fmt.Sprintf("annotation %s is %s", workspace.AnnotationSupervisorUID, quote(run.recorded()))
}

func judgeIdentity(run *evaluation) finding {
	identity, err := runtimeid.New(run.bearer.Namespace, run.owner.UID, run.bearer.PodUID)
	if err != nil {
		return refuse(verdict.IdentityUnusable, "%s", err)
	}
	run.identity = identity
	return pass()
}

func showIdentity(run *evaluation) string { return run.identity.String() }
