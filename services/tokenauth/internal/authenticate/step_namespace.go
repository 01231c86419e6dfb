package authenticate

import (
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
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

// uncompared says why the live namespace is not looked at; empty when it must be.
func (run *evaluation) uncompared() string {
	if run.mode() != driverconf.ModeOperator {
		return "only operator mode compares the namespace with a list"
	}
	if run.facts.List.UID == "" {
		return "the list names no uid for the namespace: its source is a file"
	}
	return ""
}

func judgeNamespaceFound(run *evaluation) finding {
	if why := run.uncompared(); why != "" {
		return skip(why)
	}
	q := Question{Subject: SubjectNamespace, Namespace: run.bearer.Namespace}
	found := lookup(run.facts.Namespace, q, verdict.NamespaceLookupFailed, verdict.NamespaceNotFound)
	if got := run.facts.Namespace.value; found.goesOn() && got.Name != q.Namespace {
		return refuse(verdict.NamespaceLookupFailed, "the API server answered for %s with an object named %s", q, quote(got.Name))
	}
	return found
}

func judgeNamespaceUID(run *evaluation) finding {
	if why := run.uncompared(); why != "" {
		return skip(why)
	}
	if live, entry := string(run.facts.Namespace.value.UID), run.facts.List.UID; live != entry {
		return refuse(verdict.NamespaceReplaced, "namespace %s has the uid %s, the allowlist means the one with uid %s",
			quote(run.bearer.Namespace), quote(live), quote(entry))
	}
	return pass()
}

func judgeNamespaceDeletion(run *evaluation) finding {
	if why := run.uncompared(); why != "" {
		return skip(why)
	}
	if run.facts.Namespace.value.DeletionTimestamp != nil {
		return refuse(verdict.NamespaceTerminating, "namespace %s is being deleted", quote(run.bearer.Namespace))
	}
	return pass()
}

func showNamespaceUID(run *evaluation) string {
	return fmt.Sprintf("namespace %s has the uid %s, the list names %s", quote(run.bearer.Namespace),
		quote(string(run.facts.Namespace.value.UID)), quote(run.facts.List.UID))
}

func showNotDeleting(*evaluation) string { return "it has no deletion timestamp" }

func judgeListedAgain(run *evaluation) finding {
	if run.mode() != driverconf.ModeOperator {
		return skip("only operator mode has a list")
	}
	if found := run.listed(run.facts.ListAgain, SubjectListAgain); !found.goesOn() {
		return found
	}
	// The live namespace was compared with the first answer.
	if first, now := run.facts.List.UID, run.facts.ListAgain.UID; first != now {
		return refuse(verdict.NamespaceReplaced, "while the call ran, the allowlist's uid for namespace %s changed from %s to %s",
			quote(run.bearer.Namespace), quote(first), quote(now))
	}
	return pass()
}

func showListedAgain(run *evaluation) string {
	return "still listed: " + run.facts.ListAgain.Evidence().String()
}
