package workspaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Each case changes one thing about a managed workspace that can be made.
func TestEnsureManaged(t *testing.T) {
	post, get := "POST "+namespaces, "GET "+namespaces+"/"+managed
	exists := func(f *fixture, change ...func(*corev1.Namespace)) {
		f.api[post] = []answer{failure(http.StatusConflict, metav1.StatusReasonAlreadyExists)}
		f.api[get] = []answer{ok(namespace(managed, change...))}
	}
	openshift := func(f *fixture, states ...answer) {
		f.scc = workspaces.SCCAllocate
		f.api["GET "+namespaces+"/"+source] = []answer{ok(namespace(source, annotation("uid-range")))}
		f.api[get] = states
	}
	copied := func(f *fixture, of []string, have ...string) {
		exists(f, annotation(have...))
		f.api["GET "+namespaces+"/"+source] = []answer{ok(namespace(source, annotation(of...)))}
	}
	ranges := []string{"uid-range", "supplemental-groups"}
	accounts := "POST " + namespaces + "/" + managed + "/serviceaccounts"
	cases := map[string]struct {
		change func(*fixture)
		want   verdict.Reason
	}{
		"base":                        {func(*fixture) {}, ""},
		"it exists and is ours":       {func(f *fixture) { exists(f) }, ""},
		"somebody else's":             {func(f *fixture) { exists(f, label(workspace.LabelManagedBy, "x")) }, verdict.WorkspaceForeign},
		"another gateway's":           {func(f *fixture) { exists(f, label(workspace.LabelGatewayID, "gw-team")) }, verdict.WorkspaceForeign},
		"another workspace's":         {func(f *fixture) { exists(f, label(workspace.LabelSandboxWorkspace, "other")) }, verdict.WorkspaceForeign},
		"it is being deleted":         {func(f *fixture) { exists(f, deleting) }, verdict.WorkspaceTerminating},
		"it is terminating":           {func(f *fixture) { exists(f, terminating) }, verdict.WorkspaceTerminating},
		"it goes meanwhile":           {func(f *fixture) { exists(f); f.api[get] = []answer{failure(404, metav1.StatusReasonNotFound)} }, verdict.WorkspaceTerminating},
		"it exists and is unreadable": {func(f *fixture) { exists(f); f.api[get] = []answer{failure(500, metav1.StatusReasonInternalError)} }, verdict.WorkspaceUnreadable},
		"making it is forbidden":      {func(f *fixture) { f.api[post] = []answer{failure(403, metav1.StatusReasonForbidden)} }, verdict.WorkspaceRefused},
		"making it fails":             {func(f *fixture) { f.api[post] = []answer{failure(500, metav1.StatusReasonInternalError)} }, verdict.WorkspaceUnreadable},
		"no source namespace": {func(f *fixture) {
			f.api["GET "+namespaces+"/"+source] = []answer{failure(404, metav1.StatusReasonNotFound)}
		}, verdict.WorkspaceAbsent},
		"source unreadable": {func(f *fixture) {
			f.api["GET "+namespaces+"/"+source] = []answer{failure(500, metav1.StatusReasonInternalError)}
		}, verdict.WorkspaceUnreadable},
		"account exists":  {func(f *fixture) { f.api[accounts] = []answer{failure(409, metav1.StatusReasonAlreadyExists)} }, ""},
		"account refused": {func(f *fixture) { f.api[accounts] = []answer{failure(403, metav1.StatusReasonForbidden)} }, verdict.WorkspaceRefused},
		"ssh ingress":     {func(f *fixture) { f.ssh = true }, ""},
		"allocator comes": {func(f *fixture) {
			openshift(f, ok(namespace(managed)), ok(namespace(managed, annotation("uid-range", "supplemental-groups", "mcs"))))
		}, ""},
		"allocator never comes":         {func(f *fixture) { openshift(f, ok(namespace(managed))) }, verdict.WorkspaceSCCPending},
		"allocator comes half":          {func(f *fixture) { openshift(f, ok(namespace(managed, annotation("supplemental-groups", "mcs")))) }, verdict.WorkspaceSCCPending},
		"ranges without SELinux":        {func(f *fixture) { openshift(f, ok(namespace(managed, annotation("uid-range", "supplemental-groups")))) }, verdict.WorkspaceSCCPrevented},
		"replaced while it is awaited":  {func(f *fixture) { openshift(f, ok(namespace(managed, uid("uid-2")))) }, verdict.WorkspaceTerminating},
		"deleted while it is awaited":   {func(f *fixture) { openshift(f, ok(namespace(managed, deleting))) }, verdict.WorkspaceTerminating},
		"unreadable while it is waited": {func(f *fixture) { openshift(f, failure(500, metav1.StatusReasonInternalError)) }, verdict.WorkspaceUnreadable},
		"copied":                        {func(f *fixture) { copied(f, ranges, ranges...) }, ""},
		"copied, of uids alone":         {func(f *fixture) { copied(f, ranges[:1], ranges[0]) }, ""},
		"allocated, and copy is set":    {func(f *fixture) { copied(f, append(ranges, "mcs"), append(ranges, "mcs")...) }, ""},
		"made without ranges":           {func(f *fixture) { copied(f, ranges) }, verdict.WorkspaceSCCPrevented},
		"made without its groups":       {func(f *fixture) { copied(f, ranges, ranges[0]) }, verdict.WorkspaceSCCPrevented},
		"made without its uids":         {func(f *fixture) { copied(f, ranges, ranges[1]) }, verdict.WorkspaceSCCPrevented},
		"nothing to copy":               {func(f *fixture) { copied(f, []string{"mcs"}) }, verdict.WorkspaceSCCPrevented},
		"ended when it is furnished": {func(f *fixture) {
			f.api[accounts] = []answer{because(403, metav1.StatusReasonForbidden, corev1.NamespaceTerminatingCause)}
		}, verdict.WorkspaceTerminating},
		"nobody knows who asks":   {func(f *fixture) { f.api[accounts] = []answer{failure(401, metav1.StatusReasonUnauthorized)} }, verdict.WorkspaceUnreadable},
		"the quota is written to": {func(f *fixture) { f.api[accounts] = []answer{failure(409, metav1.StatusReasonConflict)} }, verdict.WorkspaceUnreadable},
		"and so with the policy":  {func(f *fixture) { f.ssh, f.api[ingress] = true, []answer{failure(409, metav1.StatusReasonConflict)} }, verdict.WorkspaceUnreadable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := managedBase()
			c.change(&f)
			keeper, api := f.raise(t)
			place, err := keeper.Ensure(t.Context(), "team")
			if got := reasonOf(t, err); got != c.want {
				t.Fatalf("reason %q, want %q: %v", got, c.want, err)
			}
			if granted := place.Namespace == managed && place.UID == "uid-1"; granted != (err == nil) {
				t.Errorf("place %+v with error %v", place, err)
			}
			if slices.ContainsFunc(api.requests(), func(r string) bool { return strings.HasPrefix(r, "DELETE") }) {
				t.Errorf("something was deleted: %q", api.requests())
			}
		})
	}
}

func TestNamespaceIsMadeAsOurs(t *testing.T) {
	f := managedBase()
	f.api["GET "+namespaces+"/"+source] = []answer{ok(namespace(source, annotation("uid-range", "supplemental-groups", "mcs")))}
	f.api["POST "+namespaces] = []answer{{http.StatusCreated, namespace(managed, annotation("uid-range", "supplemental-groups"))}}
	keeper, api := f.raise(t)
	if _, err := keeper.Ensure(t.Context(), "team"); err != nil {
		t.Fatal(err)
	}
	made := new(corev1.Namespace)
	if err := json.Unmarshal([]byte(api.bodies["POST "+namespaces]), made); err != nil {
		t.Fatal(err)
	}
	scheme := workspace.Scheme{Mode: driverconf.ModeManaged, GatewayID: "gw"}
	if err := scheme.Owns(made.Name, made.Labels); err != nil || made.Labels[workspace.LabelSandboxWorkspace] != "team" {
		t.Errorf("labels %v are not ours: %v", made.Labels, err)
	}
	// The SELinux label is the allocator's alone to give.
	if len(made.Annotations) != 2 || made.Annotations["openshift.io/sa.scc.mcs"] != "" {
		t.Errorf("annotations %v", made.Annotations)
	}
}

func TestSSHIngressLetsTheGatewayInAndNobodyElse(t *testing.T) {
	f := managedBase()
	f.ssh = true
	keeper, api := f.raise(t)
	if _, err := keeper.Ensure(t.Context(), "team"); err != nil {
		t.Fatal(err)
	}
	got := api.bodies["PATCH /apis/networking.k8s.io/v1/namespaces/"+managed+"/networkpolicies/"+workspace.SSHIngress]
	const want = `{"kind":"NetworkPolicy","apiVersion":"networking.k8s.io/v1","metadata":{"name":"openshell-sandbox-ssh","namespace":"openshell-gw-team",` +
		`"labels":{"openshell.ai/managed-by":"openshell"}},"spec":{"podSelector":{"matchLabels":{"openshell.ai/managed-by":"openshell"}},` +
		`"ingress":[{"ports":[{"protocol":"TCP","port":2222}],"from":[{"podSelector":{"matchLabels":{"app":"gateway"}},` +
		`"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"gateways"}}}]}],"policyTypes":["Ingress"]}}`
	if got != want {
		t.Errorf("applied %s\nwant    %s", got, want)
	}
}

// Each case changes one thing about a workspace of operator mode that is listed.
func TestEnsureOperator(t *testing.T) {
	yes, other, no := listing(t, allowlist.Entry{Name: operator, UID: "uid-1"}), listing(t, allowlist.Entry{Name: operator, UID: "uid-2"}), listing(t)
	get := "GET " + namespaces + "/" + operator
	cases := map[string]struct {
		change func(*fixture)
		want   verdict.Reason
	}{
		"base":                       {func(*fixture) {}, ""},
		"from a file, without uid":   {func(f *fixture) { f.list = &list{listing(t, allowlist.Entry{Name: operator})} }, ""},
		"not listed":                 {func(f *fixture) { f.list = &list{no} }, verdict.NotListed},
		"leaves the list meanwhile":  {func(f *fixture) { f.list = &list{yes, no} }, verdict.NotListed},
		"nobody can prove the list":  {func(f *fixture) { f.list = &list{allowlist.Answer{Namespace: operator, Reason: verdict.Stale}} }, verdict.Stale},
		"the zero answer":            {func(f *fixture) { f.list = &list{{}} }, verdict.Unexplained},
		"another one was listed":     {func(f *fixture) { f.list = &list{other} }, verdict.NamespaceReplaced},
		"listed and gone":            {func(f *fixture) { f.api[get] = []answer{failure(404, metav1.StatusReasonNotFound)} }, verdict.WorkspaceAbsent},
		"listed and being deleted":   {func(f *fixture) { f.api[get] = []answer{ok(namespace(operator, terminating))} }, verdict.WorkspaceTerminating},
		"listed and cannot be read":  {func(f *fixture) { f.api[get] = []answer{failure(500, metav1.StatusReasonInternalError)} }, verdict.WorkspaceUnreadable},
		"listed and may not be read": {func(f *fixture) { f.api[get] = []answer{failure(403, metav1.StatusReasonForbidden)} }, verdict.WorkspaceRefused},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := fixture{mode: driverconf.ModeOperator, list: &list{yes}, api: map[string][]answer{get: {ok(namespace(operator))}}}
			c.change(&f)
			keeper, api := f.raise(t)
			place, err := keeper.Ensure(t.Context(), operator)
			if got := reasonOf(t, err); got != c.want {
				t.Fatalf("reason %q, want %q: %v", got, c.want, err)
			}
			if (place.Namespace == operator) != (err == nil) {
				t.Errorf("place %+v with error %v", place, err)
			}
			for _, request := range api.requests() {
				if request != get {
					t.Errorf("%s was sent", request)
				}
			}
		})
	}
}

// Each case changes one thing about a managed workspace that can be deleted.
func TestDelete(t *testing.T) {
	get, remove := "GET "+namespaces+"/"+managed, "DELETE "+namespaces+"/"+managed
	cases := map[string]struct {
		change  func(*fixture)
		want    verdict.Reason
		deleted bool
	}{
		"base":         {func(*fixture) {}, "", true},
		"gone already": {func(f *fixture) { f.api[get] = []answer{failure(404, metav1.StatusReasonNotFound)} }, "", false},
		"not ours":     {func(f *fixture) { f.api[get] = []answer{ok(namespace(managed, label(workspace.LabelGatewayID, "x")))} }, "", false},
		"another workspace's": {func(f *fixture) {
			f.api[get] = []answer{ok(namespace(managed, label(workspace.LabelSandboxWorkspace, "x")))}
		}, "", false},
		"not ours and going": {func(f *fixture) {
			f.api[get] = []answer{ok(namespace(managed, label(workspace.LabelManagedBy, "x"), deleting))}
		}, "", false},
		"on its way":         {func(f *fixture) { f.api[get] = []answer{ok(namespace(managed, deleting))} }, verdict.WorkspaceTerminating, false},
		"without a uid":      {func(f *fixture) { f.api[get] = []answer{ok(namespace(managed, uid("")))} }, verdict.WorkspaceUnreadable, false},
		"cannot be read":     {func(f *fixture) { f.api[get] = []answer{failure(500, metav1.StatusReasonInternalError)} }, verdict.WorkspaceUnreadable, false},
		"replaced meanwhile": {func(f *fixture) { f.api[remove] = []answer{failure(409, metav1.StatusReasonConflict)} }, verdict.WorkspaceTerminating, true},
		"gone meanwhile":     {func(f *fixture) { f.api[remove] = []answer{failure(404, metav1.StatusReasonNotFound)} }, "", true},
		"may not be deleted": {func(f *fixture) { f.api[remove] = []answer{failure(403, metav1.StatusReasonForbidden)} }, verdict.WorkspaceRefused, true},
		"operator mode":      {func(f *fixture) { f.mode, f.list = driverconf.ModeOperator, &list{{}} }, "", false},
		"shared mode":        {func(f *fixture) { f.mode = driverconf.ModeShared }, "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := managedBase()
			c.change(&f)
			keeper, api := f.raise(t)
			if got := reasonOf(t, keeper.Delete(t.Context(), "team")); got != c.want {
				t.Errorf("reason %q, want %q", got, c.want)
			}
			if got := slices.Contains(api.requests(), remove); got != c.deleted {
				t.Errorf("sent %q", api.requests())
			}
			if c.deleted && !strings.Contains(api.bodies[remove], `"preconditions":{"uid":"uid-1"}`) {
				t.Errorf("deleted with %s", api.bodies[remove])
			}
		})
	}
}

func TestNamesThatLeadNowhere(t *testing.T) {
	for _, name := range []string{"", "Team", "a_b", strings.Repeat("a", 64), "x.y", "-x", "ä", "\xff"} {
		f := managedBase()
		keeper, api := f.raise(t)
		if _, err := keeper.Ensure(t.Context(), name); reasonOf(t, err) != verdict.WorkspaceInvalid {
			t.Errorf("%q: %v", name, err)
		}
		if err := keeper.Delete(t.Context(), name); reasonOf(t, err) != verdict.WorkspaceInvalid {
			t.Errorf("%q: %v", name, err)
		}
		if len(api.requests()) != 0 {
			t.Errorf("%q: sent %q", name, api.requests())
		}
	}
}

func TestCancelledWhileTheAllocatorIsAwaited(t *testing.T) {
	f := managedBase()
	f.scc = workspaces.SCCAllocate
	f.api["GET "+namespaces+"/"+source] = []answer{ok(namespace(source, annotation("mcs")))}
	keeper, _ := f.raise(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := keeper.Ensure(ctx, "team"); reasonOf(t, err) != verdict.CallEnded {
		t.Errorf("error %v", err)
	}
}

// The time that one request has is the driver's own: when it is over, the call has not ended.
func TestAnAPIServerThatDoesNotAnswer(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer server.Close()
	defer close(hang)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for name, c := range map[string]struct {
		own, call time.Duration
		want      verdict.Reason
	}{
		"in the time of a request": {time.Millisecond, time.Hour, verdict.WorkspaceUnreadable},
		"in the time of the call":  {time.Hour, time.Millisecond, verdict.CallEnded},
	} {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, Transport: transport, QPS: -1, Timeout: c.own})
		if err != nil {
			t.Fatal(err)
		}
		keeper, err := workspaces.New(workspaces.Settings{Scheme: workspace.Scheme{Mode: driverconf.ModeShared, GatewayID: "gw", Namespace: source}}, client, nil, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), c.call)
		if _, err := keeper.Ensure(ctx, "team"); reasonOf(t, err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
