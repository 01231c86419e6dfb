package authenticate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// breach breaks a valid world in one way.
type breach struct {
	step   string
	reason verdict.Reason
	name   string
	do     func(*world)
	// only is the mode that has the step; empty for all.
	only driverconf.Mode
}

var deleted = metav1.NewTime(time.Unix(1, 0))

func extra(w *world, key string, values ...string) {
	copied := map[string]authenticationv1.ExtraValue{}
	for k, v := range w.review.User.Extra {
		copied[k] = v
	}
	copied[key] = values
	w.review.User.Extra = copied
}

func user(name string) func(*world) { return func(w *world) { w.review.User.Username = name } }

func refusedBy(reason verdict.Reason) func(*allowlist.Answer) {
	return func(a *allowlist.Answer) {
		*a = allowlist.Answer{Namespace: team, Reason: reason, Epoch: 7, Revision: 3}
	}
}

func asSupervisor(w *world) { w.pod.Labels[workspace.LabelBoundaryRole] = workspace.RoleSupervisor }

// asWorkload makes the Pod one that passes as far as a workload Pod can.
func asWorkload(role string) func(*world) {
	return func(w *world) {
		w.pod.Labels[workspace.LabelBoundaryRole] = role
		yes := true
		w.owner().Controller = &yes
	}
}

const (
	operator = driverconf.ModeOperator
	managed  = driverconf.ModeManaged
	shared   = driverconf.ModeShared
)

// breaches has every way in which each step is tried, in the order of the contract and of the steps between.
func breaches() []breach {
	list := []breach{
		{step: "request.credential", reason: verdict.CredentialMissing, name: "empty", do: func(w *world) { w.bytes = 0 }},
		{step: "request.credential", reason: verdict.CredentialMissing, name: "less than empty", do: func(w *world) { w.bytes = -1 }},
		{step: "request.size", reason: verdict.CredentialTooLarge, name: "one byte too long", do: func(w *world) { w.bytes = 16385 }},
		{step: "request.gateway", reason: verdict.OtherGateway, name: "another", do: func(w *world) { w.gateway = "a-b" }},
		{step: "request.gateway", reason: verdict.OtherGateway, name: "none", do: func(w *world) { w.gateway = "" }},
		{step: "request.form", reason: verdict.CredentialMalformed, name: "another form", do: func(w *world) { w.odd = true }},
		{step: "review.answered", reason: verdict.ReviewFailed, name: "API error", do: func(w *world) { w.reviewIs = failed }},
		{step: "review.answered", reason: verdict.NotAsked, name: "not asked", do: func(w *world) { w.reviewIs = unasked }},
		{step: "review.status", reason: verdict.ReviewIncomplete, name: "no status", do: func(w *world) { w.reviewIs = missing }},
		{step: "review.authenticated", reason: verdict.CredentialNotAccepted, name: "no", do: func(w *world) { w.review.Authenticated = false }},
		{step: "review.authenticated", reason: verdict.CredentialNotAccepted, name: "no, with a cause", do: func(w *world) { w.review.Authenticated, w.review.Error = false, "token expired" }},
		{step: "review.audience", reason: verdict.AudienceNotAccepted, name: "none", do: func(w *world) { w.review.Audiences = nil }},
		{step: "review.audience", reason: verdict.AudienceNotAccepted, name: "others", do: func(w *world) { w.review.Audiences = []string{"openshell-gateway2", "Openshell-gateway", ""} }},
	}
	users := map[string]string{
		"no user": "", "a person": "alice", "a node": "system:node:one", "only the prefix": "system:serviceaccount:", "no name": "system:serviceaccount:b-c:",
		"no namespace": "system:serviceaccount::sandbox-runner", "one part": "system:serviceaccount:b-c", "four parts": "system:serviceaccount:b-c:sandbox-runner:x",
		"a space in front": " system:serviceaccount:b-c:sandbox-runner", "a line break at the end": "system:serviceaccount:b-c:sandbox-runner\n",
		"a capital": "System:serviceaccount:b-c:sandbox-runner", "a path for a namespace": "system:serviceaccount:../b-c:sandbox-runner",
		"the group": "system:serviceaccounts:b-c:sandbox-runner",
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		list = append(list, breach{step: "review.user", reason: verdict.NotServiceAccount, name: name, do: user(users[name])})
	}
	for _, account := range []string{"default", "sandbox-runner2", "sandbox-runne"} {
		list = append(list, breach{step: "review.account", reason: verdict.AccountNotAccepted, name: account, do: func(w *world) {
			w.review.User.Username = strings.Replace(w.review.User.Username, "sandbox-runner", account, 1)
		}})
	}
	return append(append(append(list, namespaceBreaches()...), podBreaches()...), sandboxBreaches()...)
}

func namespaceBreaches() []breach {
	elsewhere := func(namespace string) func(*world) {
		return user("system:serviceaccount:" + namespace + ":sandbox-runner")
	}
	list := []breach{
		{step: "namespace.accepted", reason: verdict.NamespaceNotAccepted, name: "another", only: shared, do: elsewhere("sandboxes2")},
		{step: "namespace.accepted", reason: verdict.NamespaceNotAccepted, name: "a managed one", only: shared, do: elsewhere("openshell-a-b-c")},
		{step: "namespace.accepted", reason: verdict.NamespaceNotAccepted, name: "of gateway ab", only: managed, do: elsewhere("openshell-ab-c")},
		{step: "namespace.accepted", reason: verdict.NamespaceNotAccepted, name: "of no workspace", only: managed, do: elsewhere("openshell-a")},
		{step: "namespace.accepted", reason: verdict.NamespaceNotAccepted, name: "of shared mode", only: managed, do: elsewhere("sandboxes")},
		{step: "namespace.accepted", reason: verdict.NotAsked, name: "list not asked", only: operator, do: func(w *world) { w.list = allowlist.Answer{} }},
		{step: "namespace.accepted", reason: verdict.NotAsked, name: "list asked about another", only: operator, do: func(w *world) { w.list.Namespace = "b-d" }},
		{step: "namespace.accepted", reason: verdict.NotAsked, name: "a namespace that nobody asked about", only: operator, do: elsewhere("b-d")},
	}
	cannotKnow := []verdict.Reason{verdict.NotListed, verdict.Unsynced, verdict.Stale, verdict.Withdrawn, verdict.Invalid, verdict.Forked, verdict.Behind}
	for _, reason := range cannotKnow {
		list = append(list, breach{step: "namespace.accepted", reason: reason, name: string(reason), only: operator, do: func(w *world) { refusedBy(reason)(&w.list) }})
	}
	for _, key := range []string{ExtraPodName, ExtraPodUID} {
		for _, values := range [][]string{nil, {""}, {podName, podUID}, {podName, podName}, {"", podName}} {
			list = append(list, breach{step: "review.pod", reason: verdict.NotPodBound, name: fmt.Sprintf("%q for %s", values, key), do: func(w *world) { extra(w, key, values...) }})
		}
	}
	for _, name := range []string{"a/b", "..", "Supervisor", "os-supervisor-x\n", strings.Repeat("a", 254)} {
		list = append(list, breach{step: "review.pod", reason: verdict.NotPodBound, name: fmt.Sprintf("no Pod's name %.10q", name), do: func(w *world) { extra(w, ExtraPodName, name) }})
	}
	list = append(list, breach{step: "review.pod", reason: verdict.NotPodBound, name: "no extras", do: func(w *world) { w.review.User.Extra = nil }})
	for _, mode := range []driverconf.Mode{managed, operator} {
		for _, b := range []breach{
			{step: "namespace.found", reason: verdict.NotAsked, name: "not asked", do: func(w *world) { w.nsIs = unasked }},
			{step: "namespace.found", reason: verdict.NamespaceLookupFailed, name: "API error", do: func(w *world) { w.nsIs = failed }},
			{step: "namespace.found", reason: verdict.NamespaceNotFound, name: "absent", do: func(w *world) { w.nsIs = missing }},
			{step: "namespace.found", reason: verdict.NamespaceLookupFailed, name: "another object", do: func(w *world) { w.namespace.Name = "b-d" }},
		} {
			b.only = mode
			list = append(list, b)
		}
	}
	relabel := func(key, value string) func(*world) { return func(w *world) { w.namespace.Labels[key] = value } }
	without := func(key string) func(*world) { return func(w *world) { delete(w.namespace.Labels, key) } }
	return append(list,
		breach{step: "namespace.uid", reason: verdict.NamespaceReplaced, name: "another", only: operator, do: func(w *world) { w.namespace.UID = "made-anew" }},
		breach{step: "namespace.uid", reason: verdict.NamespaceReplaced, name: "none", only: operator, do: func(w *world) { w.namespace.UID = "" }},
		breach{step: "namespace.owned", reason: verdict.NamespaceNotOwned, name: "no labels", only: managed, do: func(w *world) { w.namespace.Labels = nil }},
		breach{step: "namespace.owned", reason: verdict.NamespaceNotOwned, name: "not managed", only: managed, do: without(workspace.LabelManagedBy)},
		breach{step: "namespace.owned", reason: verdict.NamespaceNotOwned, name: "managed by another", only: managed, do: relabel(workspace.LabelManagedBy, "Openshell")},
		breach{step: "namespace.owned", reason: verdict.NamespaceNotOwned, name: "of no gateway", only: managed, do: without(workspace.LabelGatewayID)},
		breach{step: "namespace.owned", reason: verdict.NamespaceNotOwned, name: "of another workspace", only: managed, do: relabel(workspace.LabelSandboxWorkspace, "b-d")},
		breach{step: "namespace.owned", reason: verdict.NamespaceNotOwned, name: "of no workspace", only: managed, do: without(workspace.LabelSandboxWorkspace)},
		// What makes the name ambiguous: the Sandbox says that it is ours, and the namespace is workspace c of gateway a-b.
		breach{step: "namespace.owned", reason: verdict.NamespaceNotOwned, name: "of gateway a-b", only: managed, do: func(w *world) {
			w.namespace.Labels[workspace.LabelGatewayID], w.namespace.Labels[workspace.LabelSandboxWorkspace] = "a-b", "c"
		}},
		breach{step: "namespace.deletion", reason: verdict.NamespaceTerminating, name: "Terminating", only: managed, do: func(w *world) { w.namespace.DeletionTimestamp = &deleted }},
		breach{step: "namespace.deletion", reason: verdict.NamespaceTerminating, name: "Terminating", only: operator, do: func(w *world) { w.namespace.DeletionTimestamp = &deleted }},
	)
}

func podBreaches() []breach {
	annotate := func(key, value string) func(*world) { return func(w *world) { w.pod.Annotations[key] = value } }
	label := func(key, value string) func(*world) {
		return func(w *world) {
			asSupervisor(w)
			w.pod.Labels[key] = value
		}
	}
	list := []breach{
		{step: "pod.found", reason: verdict.NotAsked, name: "not asked", do: func(w *world) { w.podIs = unasked }},
		{step: "pod.found", reason: verdict.PodLookupFailed, name: "API error", do: func(w *world) { w.podIs = failed }},
		{step: "pod.found", reason: verdict.PodNotFound, name: "absent", do: func(w *world) { w.podIs = missing }},
		{step: "pod.found", reason: verdict.PodLookupFailed, name: "another Pod", do: func(w *world) { w.pod.Name = "another" }},
		{step: "pod.found", reason: verdict.PodLookupFailed, name: "of another namespace", do: func(w *world) { w.pod.Namespace = "another" }},
		{step: "pod.found", reason: verdict.NotAsked, name: "read ahead for another name", do: func(w *world) { extra(w, ExtraPodName, "another") }},
		{step: "pod.uid", reason: verdict.PodReplaced, name: "made anew under its name", do: func(w *world) { w.pod.UID = "made-anew" }},
		{step: "pod.uid", reason: verdict.PodReplaced, name: "no uid", do: func(w *world) { w.pod.UID = "" }},
		{step: "pod.deletion", reason: verdict.PodTerminating, name: "terminating", do: func(w *world) { w.pod.DeletionTimestamp = &deleted }},
		{step: "pod.annotation", reason: verdict.PodSandboxIDConflict, name: "two ids", do: func(w *world) {
			w.pod.Annotations = map[string]string{workspace.AnnotationSandboxID: sandboxID, workspace.AnnotationSandboxIDFormer: "another"}
		}},
		{step: "pod.annotation", reason: verdict.PodSandboxIDConflict, name: "one of two empty", do: func(w *world) {
			w.pod.Annotations = map[string]string{workspace.AnnotationSandboxID: "", workspace.AnnotationSandboxIDFormer: sandboxID}
		}},
		{step: "pod.sandbox", reason: verdict.PodSandboxIDMissing, name: "none", do: func(w *world) { w.pod.Annotations = map[string]string{} }},
		{step: "pod.sandbox", reason: verdict.PodSandboxIDMissing, name: "empty", do: annotate(workspace.AnnotationSandboxID, "")},
		{step: "pod.pairing", reason: verdict.PodPairingMismatch, name: "pair of another", do: label(workspace.LabelBoundaryPair, "another")},
		{step: "pod.pairing", reason: verdict.PodPairingMismatch, name: "pair not lower-cased", do: label(workspace.LabelBoundaryPair, sandboxID)},
		{step: "pod.pairing", reason: verdict.PodPairingMismatch, name: "no pair", do: label(workspace.LabelBoundaryPair, "")},
		{step: "pod.pairing", reason: verdict.PodPairingMismatch, name: "label of another", do: label(workspace.LabelSandboxID, "another")},
		{step: "pod.pairing", reason: verdict.PodPairingMismatch, name: "label lower-cased", do: label(workspace.LabelSandboxID, "0a4b8c1e-5f0e")},
		{step: "pod.pairing", reason: verdict.PodPairingMismatch, name: "all of another sandbox but the name", do: func(w *world) {
			asSupervisor(w)
			w.pod.Annotations = map[string]string{workspace.AnnotationSandboxID: "s2"}
			w.pod.Labels[workspace.LabelBoundaryPair], w.pod.Labels[workspace.LabelSandboxID] = "s2", "s2"
		}},
	}
	owner := func(edit func(*metav1.OwnerReference)) func(*world) { return func(w *world) { edit(w.owner()) } }
	list = append(list,
		breach{step: "pod.owner", reason: verdict.PodOwnerInvalid, name: "no Sandbox", do: owner(func(r *metav1.OwnerReference) { r.Kind = "Pod" })},
		breach{step: "pod.owner", reason: verdict.PodOwnerInvalid, name: "another version", do: owner(func(r *metav1.OwnerReference) { r.APIVersion = "agents.x-k8s.io/v1" })},
		breach{step: "pod.owner", reason: verdict.PodOwnerInvalid, name: "no name", do: owner(func(r *metav1.OwnerReference) { r.Name = "" })},
		breach{step: "pod.owner", reason: verdict.PodOwnerInvalid, name: "no uid", do: owner(func(r *metav1.OwnerReference) { r.UID = "" })},
		breach{step: "pod.owner", reason: verdict.PodOwnerInvalid, name: "a name that is a path", do: owner(func(r *metav1.OwnerReference) { r.Name = "a/b" })},
		breach{step: "pod.owner", reason: verdict.PodOwnerInvalid, name: "two", do: func(w *world) { w.pod.OwnerReferences = append(w.pod.OwnerReferences, *w.owner()) }},
		breach{step: "pod.controller", reason: verdict.PodOwnerController, name: "wrong for the role", do: func(w *world) {
			wrong := w.role() == workspace.RoleSupervisor
			w.owner().Controller = &wrong
		}},
		breach{step: "pod.controller", reason: verdict.PodOwnerController, name: "workload Pod without controller", do: func(w *world) {
			asWorkload("workload")(w)
			w.owner().Controller = nil
		}},
		breach{step: "pod.controller", reason: verdict.PodOwnerController, name: "Pod without role and controller", do: func(w *world) {
			asWorkload("")(w)
			w.owner().Controller = nil
		}},
	)
	return list
}

func sandboxBreaches() []breach {
	label := func(key, value string) func(*world) { return func(w *world) { w.sandbox.Labels[key] = value } }
	without := func(key string) func(*world) { return func(w *world) { delete(w.sandbox.Labels, key) } }
	record := func(uid string) func(*world) {
		return func(w *world) { w.sandbox.Annotations = map[string]string{workspace.AnnotationSupervisorUID: uid} }
	}
	list := []breach{
		{step: "sandbox.found", reason: verdict.NotAsked, name: "not asked", do: func(w *world) { w.boxIs = unasked }},
		{step: "sandbox.found", reason: verdict.SandboxLookupFailed, name: "API error", do: func(w *world) { w.boxIs = failed }},
		{step: "sandbox.found", reason: verdict.SandboxNotFound, name: "absent", do: func(w *world) { w.boxIs = missing }},
		{step: "sandbox.found", reason: verdict.SandboxLookupFailed, name: "another Sandbox", do: func(w *world) { w.sandbox.Name = "another" }},
		{step: "sandbox.found", reason: verdict.SandboxLookupFailed, name: "of another namespace", do: func(w *world) { w.sandbox.Namespace = "another" }},
		{step: "sandbox.found", reason: verdict.NotAsked, name: "read through another version", do: func(w *world) { w.owner().APIVersion = "agents.x-k8s.io/v1alpha1" }},
		{step: "sandbox.uid", reason: verdict.SandboxReplaced, name: "made anew under its name", do: func(w *world) { w.sandbox.UID = "made-anew" }},
		{step: "sandbox.id", reason: verdict.SandboxIDMismatch, name: "of another", do: label(workspace.LabelSandboxID, "another")},
		{step: "sandbox.id", reason: verdict.SandboxIDMismatch, name: "only as an annotation", do: func(w *world) {
			delete(w.sandbox.Labels, workspace.LabelSandboxID)
			w.sandbox.Annotations[workspace.AnnotationSandboxID] = sandboxID
		}},
		{step: "sandbox.deletion", reason: verdict.SandboxTerminating, name: "terminating", do: func(w *world) { w.sandbox.Deleting = true }},
		{step: "sandbox.managed", reason: verdict.SandboxNotManaged, name: "not labelled", do: without(workspace.LabelManagedBy)},
		{step: "sandbox.managed", reason: verdict.SandboxNotManaged, name: "by another", do: label(workspace.LabelManagedBy, "another")},
		{step: "sandbox.gateway", reason: verdict.SandboxOtherGateway, name: "another", do: label(workspace.LabelGatewayID, "a-b")},
		{step: "sandbox.gateway", reason: verdict.SandboxOtherGateway, name: "none", do: without(workspace.LabelGatewayID)},
		{step: "sandbox.gateway", reason: verdict.SandboxOtherGateway, name: "empty", do: label(workspace.LabelGatewayID, "")},
		{step: "sandbox.workspace", reason: verdict.SandboxOtherNamespace, name: "of gateway a-b", only: managed, do: label(workspace.LabelSandboxWorkspace, "c")},
		{step: "sandbox.workspace", reason: verdict.SandboxOtherNamespace, name: "none", only: managed, do: without(workspace.LabelSandboxWorkspace)},
		{step: "sandbox.workspace", reason: verdict.SandboxOtherNamespace, name: "no name", only: managed, do: label(workspace.LabelSandboxWorkspace, "B-c")},
		{step: "pod.supervisor", reason: verdict.NotSupervisor, name: "the workload Pod", do: asWorkload("workload")},
		{step: "pod.supervisor", reason: verdict.NotSupervisor, name: "a Pod without role", do: asWorkload("")},
		{step: "pod.supervisor", reason: verdict.NotSupervisor, name: "a role with a capital", do: asWorkload("Supervisor")},
		{step: "supervisor.recorded", reason: verdict.SupervisorNotRecorded, name: "none", do: func(w *world) { w.sandbox.Annotations = map[string]string{} }},
		{step: "supervisor.recorded", reason: verdict.SupervisorNotRecorded, name: "empty", do: record("")},
		{step: "supervisor.current", reason: verdict.SupervisorNotCurrent, name: "another", do: record("left-over")},
		{step: "supervisor.current", reason: verdict.SupervisorNotCurrent, name: "another case", do: record("7C1D2E3F-0a4b-4c8d-8e9f-a0b1c2d3e4f5")},
		{step: "identity", reason: verdict.IdentityUnusable, name: "a uid with a slash", do: func(w *world) {
			const uid = "a/b"
			extra(w, ExtraPodUID, uid)
			w.pod.UID = uid
			w.sandbox.Annotations = map[string]string{workspace.AnnotationSupervisorUID: uid}
		}},
	}
	again := []breach{
		{reason: verdict.NotAsked, name: "not asked", do: func(w *world) { w.again = allowlist.Answer{} }},
		{reason: verdict.NotAsked, name: "asked about another", do: func(w *world) { w.again.Namespace = "b-d" }},
		{reason: verdict.NamespaceReplaced, name: "another uid", do: func(w *world) { w.again.UID = "made-anew" }},
		{reason: verdict.NamespaceReplaced, name: "another uid, where there was none", do: func(w *world) { w.list.UID, w.again.UID = "", "made-anew" }},
	}
	for _, reason := range []verdict.Reason{verdict.NotListed, verdict.Unsynced, verdict.Stale, verdict.Withdrawn, verdict.Invalid, verdict.Forked, verdict.Behind} {
		again = append(again, breach{reason: reason, name: string(reason), do: func(w *world) { refusedBy(reason)(&w.again) }})
	}
	for _, b := range again {
		b.step, b.only = "namespace.listed.again", operator
		list = append(list, b)
	}
	return list
}
