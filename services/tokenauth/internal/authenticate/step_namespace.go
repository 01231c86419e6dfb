package authenticate

import (
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func (run *evaluation) mode() driverconf.Mode { return run.policy.Scheme.Mode }

func judgeNamespace(run *evaluation) finding {
	scheme, namespace := run.policy.Scheme, run.bearer.Namespace
	switch scheme.Mode {
	case driverconf.ModeShared:
		if !scheme.MayHold(namespace) {
			return refuse(verdict.NamespaceNotAccepted, "namespace %s is not %s, where all sandboxes of shared mode are", quote(namespace), quote(scheme.Namespace))
		}
		return pass()
	case driverconf.ModeManaged:
		if !scheme.MayHold(namespace) {
			return refuse(verdict.NamespaceNotAccepted, "namespace %s is no managed namespace of gateway %s by its name", quote(namespace), quote(scheme.GatewayID))
		}
		return pass()
	case driverconf.ModeOperator:
		return run.listed(run.facts.List, SubjectList)
	default:
		return refuse(verdict.NamespaceNotAccepted, "there is no workspace mode, so no namespace is accepted")
	}
}

// listed takes an answer of the allowlist and judges it.
func (run *evaluation) listed(answer allowlist.Answer, subject Subject) finding {
	if q := (Question{Subject: subject, Namespace: run.bearer.Namespace}); answer.Namespace != q.Namespace {
		return ask(q)
	}
	run.list = answer
	if !answer.Allowed() {
		spec, _ := answer.Reason.Spec()
		return refuse(answer.Reason, "%s", spec.Doc)
	}
	return pass()
}

func showNamespace(run *evaluation) string {
	switch run.mode() {
	case driverconf.ModeShared:
		return fmt.Sprintf("namespace %s is the one of shared mode", quote(run.bearer.Namespace))
	case driverconf.ModeManaged:
		return fmt.Sprintf("namespace %s has the prefix of gateway %s", quote(run.bearer.Namespace), quote(run.policy.Scheme.GatewayID))
	default:
		return "listed: " + run.facts.List.Evidence().String()
	}
}

// unread says why the live namespace is not looked at; empty when it must be.
func (run *evaluation) unread() string {
	if run.mode() == driverconf.ModeShared {
		return "the one namespace of shared mode is named in the settings"
	}
	return ""
}

func judgeNamespaceFound(run *evaluation) finding {
	if why := run.unread(); why != "" {
		return skip(why)
	}
	q := Question{Subject: SubjectNamespace, Namespace: run.bearer.Namespace}
	found := lookup(run.facts.Namespace, q, verdict.NamespaceLookupFailed, verdict.NamespaceNotFound)
	if got := run.facts.Namespace.value; found.goesOn() && got.Name != q.Namespace {
		return refuse(verdict.NamespaceLookupFailed, "the API server answered for %s with an object named %s", q, quote(got.Name))
	}
	return found
}

func showNamespaceFound(run *evaluation) string {
	return fmt.Sprintf("namespace %s has the uid %s", quote(run.bearer.Namespace), quote(run.liveNamespaceUID()))
}

func (run *evaluation) liveNamespaceUID() string { return string(run.facts.Namespace.value.UID) }

func judgeNamespaceUID(run *evaluation) finding {
	switch {
	case run.mode() != driverconf.ModeOperator:
		return skip("only operator mode compares the namespace with a list")
	case run.facts.List.UID == "":
		return skip("the list names no uid for the namespace: its source is a file")
	}
	return run.sameNamespace(run.facts.List)
}

// sameNamespace compares the live namespace with the entry of an answer that has a uid.
func (run *evaluation) sameNamespace(answer allowlist.Answer) finding {
	if live := run.liveNamespaceUID(); live != answer.UID {
		return refuse(verdict.NamespaceReplaced, "namespace %s has the uid %s, the allowlist means the one with uid %s",
			quote(run.bearer.Namespace), quote(live), quote(answer.UID))
	}
	return pass()
}

func showNamespaceUID(run *evaluation) string {
	return fmt.Sprintf("the list names the uid %s too", quote(run.facts.List.UID))
}

func judgeNamespaceOwned(run *evaluation) finding {
	if run.mode() != driverconf.ModeManaged {
		return skip("only in managed mode namespaces are a gateway's own")
	}
	if err := run.policy.Scheme.Owns(run.bearer.Namespace, run.facts.Namespace.value.Labels); err != nil {
		return refuse(verdict.NamespaceNotOwned, "namespace %s is not one of gateway %s: %s", quote(run.bearer.Namespace), quote(run.policy.Scheme.GatewayID), err)
	}
	return pass()
}

func showNamespaceOwned(run *evaluation) string {
	return fmt.Sprintf("the labels of namespace %s say that it is that of workspace %s at gateway %s", quote(run.bearer.Namespace),
		quote(run.facts.Namespace.value.Labels[workspace.LabelSandboxWorkspace]), quote(run.policy.Scheme.GatewayID))
}

func judgeNamespaceDeletion(run *evaluation) finding {
	if why := run.unread(); why != "" {
		return skip(why)
	}
	if run.facts.Namespace.value.DeletionTimestamp != nil {
		return refuse(verdict.NamespaceTerminating, "namespace %s is being deleted", quote(run.bearer.Namespace))
	}
	return pass()
}

func showNotDeleting(*evaluation) string { return "it has no deletion timestamp" }

func judgeListedAgain(run *evaluation) finding {
	if run.mode() != driverconf.ModeOperator {
		return skip("only operator mode has a list")
	}
	if found := run.listed(run.facts.ListAgain, SubjectListAgain); !found.goesOn() {
		return found
	}
	// The list may have come to another source while the call ran, so one answer may name a uid where the other does not. What
	// either names is the live namespace's.
	if run.facts.ListAgain.UID == "" {
		return pass()
	}
	return run.sameNamespace(run.facts.ListAgain)
}

func showListedAgain(run *evaluation) string {
	return "still listed: " + run.facts.ListAgain.Evidence().String()
}
