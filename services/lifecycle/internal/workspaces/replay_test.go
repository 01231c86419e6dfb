package workspaces_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const ingress = "PATCH /apis/networking.k8s.io/v1/namespaces/" + managed + "/networkpolicies/" + workspace.SSHIngress

// TestReplayP02TwoManagersOfOnePolicy: it is applied under the stock driver's field manager, so that the two are one owner, and only where
// the settings say so.
func TestReplayP02TwoManagersOfOnePolicy(t *testing.T) {
	for _, on := range []bool{true, false} {
		f := managedBase()
		f.ssh = on
		keeper, api := f.raise(t)
		if _, err := keeper.Ensure(t.Context(), "team"); err != nil {
			t.Fatal(err)
		}
		sent := api.queries[ingress]
		if len(sent) > 0 != on {
			t.Errorf("ssh ingress %t: applied %d times", on, len(sent))
		}
		for _, query := range sent {
			if query.Get("fieldManager") != "openshell" {
				t.Errorf("applied as %q", query.Get("fieldManager"))
			}
		}
	}
}

// TestReplayP03APolicyOfSomebodyElse under the name is left alone: whoever has written to its spec is found before anything is written, a conflict
// is none that is forced, and the workspace is refused with the policy named to the operator.
func TestReplayP03APolicyOfSomebodyElse(t *testing.T) {
	authored := func(by ...string) answer {
		policy := networkingv1.NetworkPolicy{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}}
		for _, manager := range by {
			manager, fields, _ := strings.Cut(manager, " ")
			manager, operation, _ := strings.Cut(manager, "/")
			policy.ManagedFields = append(policy.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), FieldsV1: metav1.NewFieldsV1(fields),
			})
		}
		return answer{http.StatusOK, policy}
	}
	const ours = `openshell/Apply {"f:spec":{"f:ingress":{}}}`
	for name, c := range map[string]struct {
		answers []answer
		applied bool
	}{
		"ours":                              {[]answer{authored(ours)}, true},
		"ours, annotated":                   {[]answer{authored(ours, `kubectl/Update {"f:metadata":{"f:annotations":{}}}`)}, true},
		"theirs":                            {[]answer{authored(ours, `kubectl-create/Update {"f:spec":{"f:policyTypes":{}}}`)}, false},
		"theirs, applied":                   {[]answer{authored(ours, `argocd/Apply {"f:spec":{"f:podSelector":{}}}`)}, false},
		"edited under our name":             {[]answer{authored(ours, `openshell/Update {"f:spec":{"f:ingress":{}}}`)}, false},
		"of who cannot be told":             {[]answer{authored(ours, `x/Update []`)}, false},
		"in conflict":                       {[]answer{because(http.StatusConflict, metav1.StatusReasonConflict, metav1.CauseTypeFieldManagerConflict)}, false},
		"in conflict when it is written":    {[]answer{authored(ours), because(http.StatusConflict, metav1.StatusReasonConflict, metav1.CauseTypeFieldManagerConflict)}, true},
		"made by others when it is written": {[]answer{authored(ours), authored(ours, `kubectl-create/Update {"f:spec":{}}`)}, true},
	} {
		f := managedBase()
		f.ssh = true
		f.api[ingress] = c.answers
		keeper, api := f.raise(t)
		_, err := keeper.Ensure(t.Context(), "team")
		refused := reasonOf(t, err) == verdict.WorkspaceRefused && strings.Contains(err.Error(), workspace.SSHIngress)
		if granted := strings.HasPrefix(name, "ours"); granted != (err == nil) || !granted && !refused {
			t.Errorf("%s: %v", name, err)
		}
		written := false
		for _, query := range api.queries[ingress] {
			written = written || query.Get("dryRun") == ""
			if force := query.Get("force"); force != "" && force != "false" {
				t.Errorf("%s: the apply has force=%s", name, force)
			}
		}
		if written != c.applied || len(api.queries[ingress]) == 0 || api.queries[ingress][0].Get("dryRun") != "All" {
			t.Errorf("%s: sent %v", name, api.queries[ingress])
		}
		for _, r := range api.requests() {
			if strings.HasPrefix(r, "DELETE") {
				t.Errorf("%s: sent %s", name, r)
			}
		}
	}
}

// TestReplayP07NoEmptyLists: an empty list, or a selector without labels, means everything or nothing, and is never rendered.
func TestReplayP07NoEmptyLists(t *testing.T) {
	f := managedBase()
	f.ssh = true
	keeper, api := f.raise(t)
	if _, err := keeper.Ensure(t.Context(), "team"); err != nil {
		t.Fatal(err)
	}
	var policy any
	if err := json.Unmarshal([]byte(api.bodies[ingress]), &policy); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if len(v) == 0 {
				t.Errorf("%s is an empty object", path)
			}
			for key, member := range v {
				walk(path+"."+key, member)
			}
		case []any:
			if len(v) == 0 {
				t.Errorf("%s is an empty list", path)
			}
			for _, member := range v {
				walk(path+"[]", member)
			}
		case nil:
			t.Errorf("%s is null", path)
		}
	}
	walk("policy", policy)
}

// TestReplayW24ATerminatingNamespace takes no new sandbox, by timestamp or by phase, and a workspace in it can still be given up.
func TestReplayW24ATerminatingNamespace(t *testing.T) {
	for name, going := range map[string]func(*corev1.Namespace){"phase": terminating, "timestamp": deleting} {
		f := managedBase()
		f.api["POST "+namespaces] = []answer{failure(http.StatusConflict, metav1.StatusReasonAlreadyExists)}
		f.api["GET "+namespaces+"/"+managed] = []answer{ok(namespace(managed, going))}
		keeper, _ := f.raise(t)
		_, ensure := keeper.Ensure(t.Context(), "team")
		_, enter := keeper.Enter(t.Context(), managed)
		for call, err := range map[string]error{"create": ensure, "start": enter, "delete": keeper.Delete(t.Context(), "team")} {
			if reason := reasonOf(t, err); reason != verdict.WorkspaceTerminating {
				t.Errorf("%s, %s: %q", name, call, reason)
			}
		}
	}
}
