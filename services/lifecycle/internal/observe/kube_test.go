package observe

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestListOfSandboxes(t *testing.T) {
	for name, c := range map[string]struct {
		mode       driverconf.Mode
		namespaced bool
	}{"shared": {driverconf.ModeShared, true}, "managed": {driverconf.ModeManaged, false}, "operator": {driverconf.ModeOperator, false}} {
		t.Run(name, func(t *testing.T) {
			kube, api := serve(t, c.mode)
			at := path(sandboxapi.V1beta1, c.namespaced)
			foreign := rawBox(sandboxapi.V1beta1, "u2", "b", "6")
			foreign["metadata"].(map[string]any)["labels"].(map[string]any)[workspace.LabelGatewayID] = "red"
			odd := rawBox(sandboxapi.V1beta1, "u3", "c", "7")
			odd["spec"] = map[string]any{"podTemplate": "none"}
			api.put(at, 200, list(sandboxapi.V1beta1.APIVersion(), "SandboxList", "9", "more", rawBox(sandboxapi.V1beta1, "u1", "a", "5"), foreign))
			api.put(at+"?continue", 200, list(sandboxapi.V1beta1.APIVersion(), "SandboxList", "9", "", odd))
			got, err := kube.Sources().Sandboxes.List(t.Context(), 3)
			must(t, err)
			if got.Version != 9 || len(got.Items) != 3 {
				t.Fatalf("%+v", got)
			}
			if c.mode == driverconf.ModeShared && (got.Items[0].Problem != nil || got.Items[0].Value.ID != "a" || got.Items[0].Version != 5) {
				t.Errorf("%+v", got.Items[0])
			}
			if !errors.Is(got.Items[1].Problem, snapshot.ErrForeign) || got.Items[1].UID != "u2" {
				t.Errorf("%+v", got.Items[1])
			}
			if !errors.Is(got.Items[2].Problem, snapshot.ErrMalformed) || got.Items[2].UID != "u3" {
				t.Errorf("%+v", got.Items[2])
			}
			want := []string{at + " " + ourSelector + " limit=200 rv= bookmarks=", at + "?continue " + ourSelector + " limit=200 rv= bookmarks="}
			if diff := cmp.Diff(want, api.requests()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestListThatFailsIsNoShortList(t *testing.T) {
	for name, second := range map[string]answer{
		"a page is expired": {http.StatusGone, failure(http.StatusGone, metav1.StatusReasonExpired)},
		"a page fails":      {http.StatusInternalServerError, failure(500, metav1.StatusReasonInternalError)},
		"a page is none":    {200, "nonsense"},
		"a version is none": {200, list(sandboxapi.V1beta1.APIVersion(), "SandboxList", "9", "", rawBox(sandboxapi.V1beta1, "u2", "b", "x"))},
	} {
		kube, api := serve(t, driverconf.ModeShared)
		at := path(sandboxapi.V1beta1, true)
		api.put(at, 200, list(sandboxapi.V1beta1.APIVersion(), "SandboxList", "9", "more", rawBox(sandboxapi.V1beta1, "u1", "a", "5")))
		api.put(at+"?continue", second.code, second.body)
		if got, err := kube.Sources().Sandboxes.List(t.Context(), 0); err == nil || len(got.Items) > 0 || errors.Is(err, ErrNotServed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestServedVersions: the version is found by each list, and a preferred one is noticed when it comes to be served.
func TestServedVersions(t *testing.T) {
	kube, api := serve(t, driverconf.ModeShared)
	beta, alpha := path(sandboxapi.V1beta1, true), path(sandboxapi.V1alpha1, true)
	source := kube.Sources().Sandboxes
	tell := func(Change[snapshot.Sandbox]) bool { return true }
	if _, err := source.List(t.Context(), 0); !errors.Is(err, ErrNotServed) {
		t.Errorf("none is served: %v", err)
	}
	api.put(alpha, 200, list(sandboxapi.V1alpha1.APIVersion(), "SandboxList", "9", "", rawBox(sandboxapi.V1alpha1, "u1", "a", "5")))
	got, err := source.List(t.Context(), 0)
	if err != nil || len(got.Items) != 1 || got.Items[0].Value.Version != sandboxapi.V1alpha1 {
		t.Errorf("%+v, %v", got, err)
	}
	api.put(alpha+"?watch", 200, []any{})
	if err := source.Watch(t.Context(), 9, tell); err != nil {
		t.Errorf("%v", err)
	}
	api.put(beta, 200, list(sandboxapi.V1beta1.APIVersion(), "SandboxList", "10", "", rawBox(sandboxapi.V1beta1, "u1", "a", "5")))
	api.requests()
	if err := source.Watch(t.Context(), 9, tell); !errors.Is(err, ErrRelist) {
		t.Errorf("%v", err)
	}
	if asked := api.requests(); len(asked) != 1 {
		t.Errorf("it watches all the same: %v", asked)
	}
	if got, err = source.List(t.Context(), 9); err != nil || got.Items[0].Value.Version != sandboxapi.V1beta1 {
		t.Errorf("%+v, %v", got, err)
	}
	api.requests()
	if err := source.Watch(t.Context(), 10, tell); !errors.Is(err, ErrRelist) { // there is no such watch here: 404
		t.Errorf("%v", err)
	}
	if asked := trimmed(api.requests()); asked != beta+"?watch "+ourSelector+" limit= rv=10 bookmarks=true" {
		t.Errorf("it asks %s", asked)
	}
}

func TestWatchOfSandboxes(t *testing.T) {
	type change struct {
		Form    Form
		UID     string
		Version uint64
		Bad     bool
	}
	bare := func(version string) map[string]any {
		return map[string]any{"apiVersion": sandboxapi.V1beta1.APIVersion(), "kind": "Sandbox", "metadata": map[string]any{"resourceVersion": version}}
	}
	odd := rawBox(sandboxapi.V1beta1, "u2", "b", "12")
	delete(odd["metadata"].(map[string]any)["labels"].(map[string]any), workspace.LabelSandboxName)
	for name, c := range map[string]struct {
		code   int
		body   any
		want   []change
		relist bool
		fails  bool
	}{
		"events": {200, []any{
			event("ADDED", rawBox(sandboxapi.V1beta1, "u1", "a", "11")), event("MODIFIED", odd), event("BOOKMARK", bare("20")),
			event("DELETED", rawBox(sandboxapi.V1beta1, "u1", "a", "21")),
		}, []change{{Form: Opened}, {Put, "u1", 11, false}, {Put, "u2", 12, true}, {Reached, "/", 20, false}, {Dropped, "u1", 21, false}}, false, false},
		"expired, later": {200, []any{event("ERROR", failure(http.StatusGone, metav1.StatusReasonExpired))}, []change{{Form: Opened}}, true, true},
		"expired":        {http.StatusGone, failure(http.StatusGone, metav1.StatusReasonExpired), nil, true, true},
		"not served":     {http.StatusNotFound, failure(404, metav1.StatusReasonNotFound), nil, true, true},
		"too large": {http.StatusGatewayTimeout, map[string]any{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Timeout", "code": 504, "message": "Too large resource version: 10, current: 2",
		}, nil, true, true},
		"forbidden":      {http.StatusForbidden, failure(http.StatusForbidden, metav1.StatusReasonForbidden), nil, false, true},
		"a server error": {200, []any{event("ERROR", failure(500, metav1.StatusReasonInternalError))}, []change{{Form: Opened}}, false, true},
		"no version":     {200, []any{event("ADDED", rawBox(sandboxapi.V1beta1, "u1", "a", ""))}, []change{{Form: Opened}}, true, true},
		"closed":         {200, []any{}, []change{{Form: Opened}}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			kube, api := serve(t, driverconf.ModeShared)
			source := &kubeSandboxes{kube: kube, at: sandboxapi.V1beta1}
			api.put(path(sandboxapi.V1beta1, true)+"?watch", c.code, c.body)
			var got []change
			err := source.Watch(t.Context(), 10, func(ch Change[snapshot.Sandbox]) bool {
				got = append(got, change{ch.Form, ch.UID, ch.Version, ch.Problem != nil})
				return true
			})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if (err != nil) != c.fails || errors.Is(err, ErrRelist) != c.relist {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestWatchEndsWhenNobodyListens(t *testing.T) {
	kube, api := serve(t, driverconf.ModeShared)
	source := &kubeSandboxes{kube: kube, at: sandboxapi.V1beta1}
	api.put(path(sandboxapi.V1beta1, true)+"?watch", 200, []any{event("ADDED", rawBox(sandboxapi.V1beta1, "u1", "a", "11")), event("ADDED", rawBox(sandboxapi.V1beta1, "u2", "b", "12"))})
	for most := range 2 {
		n := 0
		if err := source.Watch(t.Context(), 10, func(Change[snapshot.Sandbox]) bool { n++; return n <= most }); err != nil || n != most+1 {
			t.Errorf("%d changes, %v", n, err)
		}
	}
}

func TestPodsAndEvents(t *testing.T) {
	kube, api := serve(t, driverconf.ModeShared)
	const podPath, eventPath = "/api/v1/namespaces/openshell/pods", "/api/v1/namespaces/openshell/events"
	api.put(podPath, 200, list("v1", "PodList", "9", "", rawPod("w", "5", nil), rawPod("x", "6", func(p map[string]any) {
		delete(p["metadata"].(map[string]any), "ownerReferences")
	}), rawPod("y", "7", func(p map[string]any) {
		p["metadata"].(map[string]any)["labels"].(map[string]any)[workspace.LabelGatewayID] = "green"
	})))
	api.put(podPath+"?watch", 200, []any{event("DELETED", rawPod("w", "10", nil))})
	all, err := kube.Sources().Pods.List(t.Context(), 0)
	if err != nil || len(all.Items) != 3 || all.Items[0].Value.Owner != "u1" || !errors.Is(all.Items[1].Problem, snapshot.ErrForeign) ||
		!errors.Is(all.Items[2].Problem, snapshot.ErrForeign) || all.Items[2].Value != (snapshot.Pod{}) {
		t.Errorf("%+v, %v", all, err)
	}
	var forms []Form
	if err := kube.Sources().Pods.Watch(t.Context(), 9, func(ch Change[snapshot.Pod]) bool { forms = append(forms, ch.Form); return true }); err != nil || !cmp.Equal(forms, []Form{Opened, Dropped}) {
		t.Errorf("%v, %v", forms, err)
	}
	const selector = "openshell.ai/boundary-role in (supervisor,workload)"
	if got := trimmed(api.requests()); got != podPath+" "+selector+" limit=250 rv= bookmarks=\n"+podPath+"?watch "+selector+" limit= rv=9 bookmarks=true" {
		t.Error(got)
	}

	api.put(eventPath, 200, list("v1", "EventList", "30", "more", rawEvent("e1", "21")))
	api.put(eventPath, 200, list("v1", "EventList", "40", "more", rawEvent("e1", "21"), rawEvent("e2", "31")))
	api.put(eventPath+"?continue", 200, list("v1", "EventList", "40", "", rawEvent("e3", "30"), rawEvent("e4", "39")))
	api.put(eventPath+"?watch", 200, []any{event("ADDED", rawEvent("e5", "41"))})
	source := kube.Sources().Events
	first, err := source.List(t.Context(), 0)
	if err != nil || first.Version != 30 || len(first.Items) != 0 {
		t.Errorf("%+v, %v", first, err)
	}
	if got := trimmed(api.requests()); got != eventPath+"  limit=1 rv= bookmarks=" {
		t.Error(got)
	}
	later, err := source.List(t.Context(), 30)
	if err != nil || later.Version != 40 || len(later.Items) != 2 || later.Items[0].UID != "e2" || later.Items[1].UID != "e4" {
		t.Errorf("%+v, %v", later, err)
	}
	var told []Change[progress.Event]
	if err := source.Watch(t.Context(), 40, func(ch Change[progress.Event]) bool { told = append(told, ch); return true }); err != nil || len(told) != 2 || told[1].Value.Reason != "Pulled" {
		t.Errorf("%+v, %v", told, err)
	}
}

func TestFind(t *testing.T) {
	beta, alpha := path(sandboxapi.V1beta1, true), path(sandboxapi.V1alpha1, true)
	empty := list(sandboxapi.V1beta1.APIVersion(), "SandboxList", "9", "")
	for name, c := range map[string]struct {
		answers map[string]answer
		id      string
		found   int
		want    error
		fails   bool
	}{
		"absent":              {map[string]answer{beta: {200, empty}}, "a", 0, nil, false},
		"there":               {map[string]answer{beta: {200, list(sandboxapi.V1beta1.APIVersion(), "SandboxList", "9", "", rawBox(sandboxapi.V1beta1, "u1", "a", "5"))}}, "a", 1, nil, false},
		"there, in alpha":     {map[string]answer{alpha: {200, list(sandboxapi.V1alpha1.APIVersion(), "SandboxList", "9", "", rawBox(sandboxapi.V1alpha1, "u1", "a", "5"))}}, "a", 1, nil, false},
		"not served":          {nil, "a", 0, ErrNotServed, true},
		"cannot be read":      {map[string]answer{beta: {200, list(sandboxapi.V1beta1.APIVersion(), "SandboxList", "9", "", map[string]any{"apiVersion": "x/v1", "kind": "Y", "metadata": map[string]any{}})}}, "a", 0, ErrUnreadable, true},
		"refused":             {map[string]answer{beta: {403, failure(403, metav1.StatusReasonForbidden)}, alpha: {200, empty}}, "a", 0, nil, true},
		"failing":             {map[string]answer{beta: {500, failure(500, metav1.StatusReasonInternalError)}, alpha: {200, empty}}, "a", 0, nil, true},
		"an answer of no one": {map[string]answer{beta: {200, "hello"}, alpha: {200, empty}}, "a", 0, nil, true},
		"no id":               {map[string]answer{beta: {200, empty}}, "", 0, nil, true},
		"an id that is more":  {map[string]answer{beta: {200, empty}}, "a,b!=c", 0, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			kube, api := serve(t, driverconf.ModeShared)
			for key, a := range c.answers {
				api.put(key, a.code, a.body)
			}
			found, err := kube.Find(t.Context(), c.id)
			if len(found) != c.found || (err != nil) != c.fails || c.want != nil && !errors.Is(err, c.want) || errors.Is(err, ErrAbsent) {
				t.Errorf("%+v, %v", found, err)
			}
			for _, asked := range api.requests() {
				if want := " openshell.ai/gateway-id=blue,openshell.ai/managed-by=openshell,openshell.ai/sandbox-id=a limit=16 rv= bookmarks="; asked != beta+want && asked != alpha+want {
					t.Errorf("it asks %s", asked)
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	kube, _ := serve(t, driverconf.ModeShared)
	if _, err := kube.Find(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestFindLeavesCopiesOut: what bears the labels of a sandbox somewhere else is neither it nor a second one, and does not hide it. What is
// in its place and cannot be read is never absent.
func TestFindLeavesCopiesOut(t *testing.T) {
	const beta = sandboxapi.V1beta1
	box := func(uid, namespace, workspaceLabel string) map[string]any {
		b := rawBox(beta, uid, "a", "5")
		meta := b["metadata"].(map[string]any)
		meta["namespace"], meta["labels"].(map[string]any)[workspace.LabelSandboxWorkspace] = namespace, workspaceLabel
		return b
	}
	own, copied := box("u1", "team", "team"), box("u9", "restored", "team")
	odd := box("u2", "team", "team")
	odd["spec"] = map[string]any{"podTemplate": "none"}
	oddCopy := box("u8", "restored", "team")
	oddCopy["spec"] = odd["spec"]
	edited := box("u3", "team", "elsewhere")
	edited["metadata"].(map[string]any)["annotations"] = map[string]any{workspace.AnnotationSandboxWorkspace: "team"}
	nameless := box("", "team", "team")
	page := func(next string, items ...any) map[string]any {
		return list(beta.APIVersion(), "SandboxList", "9", next, items...)
	}
	for name, c := range map[string]struct {
		pages []map[string]any
		want  []string
		err   error
		fails bool
	}{
		"a copy beside it":              {[]map[string]any{page("", copied, own)}, []string{"u1"}, nil, false},
		"a copy alone":                  {[]map[string]any{page("", copied)}, nil, nil, false},
		"a copy that cannot be read":    {[]map[string]any{page("", oddCopy, own)}, []string{"u1"}, nil, false},
		"copies that fill a page":       {[]map[string]any{page("more", copied, copied), page("", own)}, []string{"u1"}, nil, false},
		"two in their places":           {[]map[string]any{page("", own, box("u4", "other", "other"))}, []string{"u1", "u4"}, nil, false},
		"one label was edited":          {[]map[string]any{page("", edited)}, []string{"u3"}, nil, false},
		"it cannot be read":             {[]map[string]any{page("", odd)}, []string{"u2"}, ErrUnreadable, true},
		"one of two cannot be read":     {[]map[string]any{page("", odd, own)}, []string{"u2", "u1"}, ErrUnreadable, true},
		"it has no uid":                 {[]map[string]any{page("", nameless)}, nil, ErrUnreadable, true},
		"more follow an empty page":     {[]map[string]any{page("more"), page("")}, nil, nil, true},
		"copies without end":            {[]map[string]any{page("more", copied), page("more", copied)}, nil, nil, true},
		"a page fails behind the copy":  {[]map[string]any{page("more", copied), nil}, nil, nil, true},
		"an object of another selector": {[]map[string]any{page("", rawBox(beta, "u1", "b", "5"))}, nil, ErrUnreadable, true},
	} {
		t.Run(name, func(t *testing.T) {
			kube, api := serve(t, driverconf.ModeOperator)
			at := path(beta, false)
			for i, p := range c.pages {
				key := at
				if i > 0 {
					key += "?continue"
				}
				if p == nil {
					api.put(key, http.StatusInternalServerError, failure(500, metav1.StatusReasonInternalError))
					continue
				}
				api.put(key, 200, p)
			}
			found, err := kube.Find(t.Context(), "a")
			var got []string
			for i := range found {
				got = append(got, found[i].UID)
				if found[i].Namespace != "team" && found[i].Namespace != "other" || found[i].Name == "" || found[i].Version != beta || found[i].ResourceVersion != "5" {
					t.Errorf("%+v", found[i])
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != c.fails || c.err != nil && !errors.Is(err, c.err) || errors.Is(err, ErrAbsent) {
				t.Errorf("%v, %s", err, diff)
			}
		})
	}
}

func TestNewKubeRefuses(t *testing.T) {
	if _, err := NewKube(scheme, kubeclient.Client{}, kubeclient.Client{}); err == nil {
		t.Error("no clients are accepted")
	}
	kube, _ := serve(t, driverconf.ModeShared)
	if _, err := NewKube(workspace.Scheme{}, kube.calls, kube.watches); err == nil {
		t.Error("no scheme is accepted")
	}
}
