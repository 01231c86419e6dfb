package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

const gate = "openshell.ai/bootstrap"

// writing is one method that writes to the object "box" of the namespace "team".
type writing struct {
	method, path    string
	group, resource string
	// done is what the API server answers.
	done  any
	write func(context.Context, *cluster.Cluster) error
}

func at() *sandboxapi.Object {
	return &sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{Namespace: "team", Name: "box", UID: "uid-box"}, Version: sandboxapi.V1beta1, ResourceVersion: "41",
	}
}

func writings() map[string]writing {
	const core, team = "/api/v1/namespaces/team/", "team"
	meta := metav1.ObjectMeta{Namespace: team, Name: "box"}
	return map[string]writing{
		"create policy": {
			"POST", "/apis/networking.k8s.io/v1/namespaces/team/networkpolicies", "networking.k8s.io", "networkpolicies",
			networkingv1.NetworkPolicy{},
			func(ctx context.Context, c *cluster.Cluster) error {
				_, err := c.CreatePolicy(ctx, &networkingv1.NetworkPolicy{ObjectMeta: meta})
				return err
			},
		},
		"create service": {"POST", core + "services", "", "services", corev1.Service{}, func(ctx context.Context, c *cluster.Cluster) error {
			_, err := c.CreateService(ctx, &corev1.Service{ObjectMeta: meta})
			return err
		}},
		"create pod": {"POST", core + "pods", "", "pods", corev1.Pod{}, func(ctx context.Context, c *cluster.Cluster) error {
			_, err := c.CreatePod(ctx, &corev1.Pod{ObjectMeta: meta})
			return err
		}},
		"create secret": {"POST", core + "secrets", "", "secrets", corev1.Secret{}, func(ctx context.Context, c *cluster.Cluster) error {
			_, err := c.CreateSecret(ctx, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"tls.key": []byte("the key")}})
			return err
		}},
		"delete pod": {"DELETE", core + "pods/box", "", "pods", metav1.Status{Status: metav1.StatusSuccess}, func(ctx context.Context, c *cluster.Cluster) error {
			return c.DeletePod(ctx, team, "box", "uid-box")
		}},
		"delete service": {"DELETE", core + "services/box", "", "services", metav1.Status{Status: metav1.StatusSuccess}, func(ctx context.Context, c *cluster.Cluster) error {
			return c.DeleteService(ctx, team, "box", "uid-box")
		}},
		"delete secret": {"DELETE", core + "secrets/box", "", "secrets", metav1.Status{Status: metav1.StatusSuccess}, func(ctx context.Context, c *cluster.Cluster) error {
			return c.DeleteSecret(ctx, team, "box", "uid-box")
		}},
		"create event": {"POST", core + "events", "", "events", corev1.Event{}, func(ctx context.Context, c *cluster.Cluster) error {
			_, err := c.CreateEvent(ctx, &corev1.Event{ObjectMeta: meta})
			return err
		}},
		"count event": {"PATCH", core + "events/box", "", "events", corev1.Event{}, func(ctx context.Context, c *cluster.Cluster) error {
			_, err := c.CountEvent(ctx, team, "box", []byte(`{"count":2}`))
			return err
		}},
		"ungate": {"PATCH", core + "pods/box", "", "pods", corev1.Pod{}, func(ctx context.Context, c *cluster.Cluster) error {
			_, err := c.Ungate(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "box", UID: "uid-box", ResourceVersion: "41"}}, gate, 1, map[string]string{"note": "n"})
			return err
		}},
		"change sandbox": {
			"PATCH", "/apis/agents.x-k8s.io/v1beta1/namespaces/team/sandboxes/box", "agents.x-k8s.io", "sandboxes", sandbox("v1beta1"),
			func(ctx context.Context, c *cluster.Cluster) error {
				_, err := c.ChangeSandbox(ctx, at(), cluster.Change{Annotations: map[string]any{"a": "b"}})
				return err
			},
		},
	}
}

// kinds are what an error may say; none of them is that the write was not carried out, for a reason that may pass.
var kinds = map[string]error{
	"absent": cluster.ErrAbsent, "exists": cluster.ErrExists, "conflict": cluster.ErrConflict, "refused": cluster.ErrRefused, "unsettled": cluster.ErrUnsettled,
}

func kindOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "done"
	}
	kind := "none"
	for name, k := range kinds {
		if errors.Is(err, k) {
			if kind != "none" {
				t.Errorf("it is %s and %s: %v", kind, name, err)
			}
			kind = name
		}
	}
	return kind
}

// TestWrites: what each answer means for a write. The answers are those of a real API server.
func TestWrites(t *testing.T) {
	for name, w := range writings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := &metav1.StatusDetails{Group: w.group, Kind: w.resource, Name: "box"}
			namespace := &metav1.StatusDetails{Kind: "namespaces", Name: "team"}
			quota := &metav1.StatusDetails{Kind: "resourcequotas", Name: "q"}
			deletes, tests := w.method == "DELETE", name == "ungate" || name == "change sandbox"
			instead := func(when bool, kind, otherwise string) string {
				if when {
					return kind
				}
				return otherwise
			}
			s := newSite(t, nil)
			c := s.cluster(patience)
			for what, a := range map[string]struct {
				answer http.HandlerFunc
				want   string
			}{
				"absent":                  {refusal(404, metav1.StatusReasonNotFound, `"box" not found`, own), instead(deletes, "done", "absent")},
				"no such namespace":       {refusal(404, metav1.StatusReasonNotFound, `namespaces "team" not found`, namespace), "refused"},
				"path not found":          {plain(404, "404 page not found"), "none"},
				"exists":                  {refusal(409, metav1.StatusReasonAlreadyExists, `"box" already exists`, own), "exists"},
				"changed meanwhile":       {refusal(409, metav1.StatusReasonConflict, "the object has been modified; please apply your changes", own), "conflict"},
				"another uid":             {refusal(409, metav1.StatusReasonConflict, "Precondition failed: UID in precondition: a, UID in object meta: b", own), instead(deletes, "done", "conflict")},
				"another uid, early":      {refusal(409, metav1.StatusReasonConflict, "the UID in the precondition (a) does not match the UID in record (b)", own), instead(deletes, "done", "conflict")},
				"quota changed meanwhile": {refusal(409, metav1.StatusReasonConflict, "Operation cannot be fulfilled on resourcequotas", quota), "conflict"},
				"conflict of a proxy":     {plain(409, "conflict"), "none"},
				"quota":                   {refusal(403, metav1.StatusReasonForbidden, `"box" is forbidden: exceeded quota: q, requested: 1, used: 9, limited: 9`, own), "refused"},
				"quota that is new":       {refusal(403, metav1.StatusReasonForbidden, `"box" is forbidden: status unknown for quota: q, resources: pods`, own), "none"},
				"webhook, of a quota":     {refusal(403, metav1.StatusReasonForbidden, `admission webhook "x" denied the request: status unknown for quota: q`, nil), "refused"},
				"pod security":            {refusal(403, metav1.StatusReasonForbidden, `pods "box" is forbidden: violates PodSecurity "restricted:latest": privileged`, own), "refused"},
				"SCC":                     {refusal(403, metav1.StatusReasonForbidden, `pods "box" is forbidden: unable to validate against any security context constraint: []`, own), "refused"},
				"namespace is ending":     {refusal(403, metav1.StatusReasonForbidden, `"box" is forbidden: unable to create new content in namespace team because it is being terminated`, own), "refused"},
				"no right":                {refusal(403, metav1.StatusReasonForbidden, `"box" is forbidden: User "x" cannot`, own), "refused"},
				"forbidden by a proxy":    {plain(403, "no"), "none"},
				"webhook":                 {refusal(403, metav1.StatusReasonForbidden, `admission webhook "x" denied the request: no`, nil), "refused"},
				"webhook without a code":  {refusal(400, "", `admission webhook "x" denied the request without explanation`, nil), "refused"},
				"webhook with any code":   {refusal(500, metav1.StatusReasonInternalError, `admission webhook "x" denied the request: no`, nil), "refused"},
				"webhook with 409":        {refusal(409, metav1.StatusReasonConflict, `admission webhook "x" denied the request: no`, nil), "refused"},
				"webhook with 422":        {refusal(422, metav1.StatusReasonInvalid, `admission webhook "x" denied the request: no`, nil), "refused"},
				"webhook does not answer": {refusal(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "x"`, nil), "unsettled"},
				"invalid":                 {refusal(422, metav1.StatusReasonInvalid, `Pod "box" is invalid: spec: Invalid value`, &metav1.StatusDetails{Kind: "Pod", Name: "box"}), "refused"},
				"test of a patch":         {refusal(422, metav1.StatusReasonInvalid, "the server rejected our request due to an error in our request", &metav1.StatusDetails{}), instead(tests, "conflict", "refused")},
				"what no patch may make":  {refusal(422, metav1.StatusReasonInvalid, `"" is invalid: patch: Invalid value`, &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "patch"}}}), "refused"},
				"malformed":               {refusal(400, metav1.StatusReasonBadRequest, "no", nil), "refused"},
				"too large":               {refusal(413, metav1.StatusReasonRequestEntityTooLarge, "Request entity too large: limit is 3145728", nil), "refused"},
				"not us":                  {refusal(401, metav1.StatusReasonUnauthorized, "Unauthorized", nil), "none"},
				"too many":                {refusal(429, metav1.StatusReasonTooManyRequests, "later", nil), "none"},
				"internal":                {refusal(500, metav1.StatusReasonInternalError, "etcdserver: leader changed", nil), "unsettled"},
				"timeout":                 {refusal(504, metav1.StatusReasonTimeout, "Timeout: request did not complete within requested timeout", nil), "unsettled"},
				"proxy":                   {plain(502, "bad gateway"), "unsettled"},
				"cut off":                 {cut, "unsettled"},
				"done":                    {object(w.done), "done"},
			} {
				s.on(a.answer)
				err := w.write(t.Context(), c)
				if got := kindOf(t, err); got != a.want {
					t.Errorf("%s: %s, want %s: %v", what, got, a.want, err)
				}
				if err != nil && !strings.Contains(err.Error(), w.resource) || err != nil && !strings.Contains(err.Error(), " team/box") {
					t.Errorf("%s: the error does not say of what: %v", what, err)
				}
				if err != nil && strings.Contains(what, "quota") && w.resource != "secrets" && !strings.Contains(err.Error(), "quota") {
					t.Errorf("%s: the error does not say why: %v", what, err)
				}
				if r := s.requests(); len(r) == 0 || r[0].method != w.method || r[0].path != w.path {
					t.Errorf("%s: %+v", what, r)
				}
			}
		})
	}
}

// TestWritesEndInTime: what was sent and not answered may have been done.
func TestWritesEndInTime(t *testing.T) {
	for name, w := range writings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, hang)
			if err := w.write(t.Context(), s.cluster(20*time.Millisecond)); !errors.Is(err, cluster.ErrUnsettled) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			s.on(hang)
			full := fullLimit{flowcontrol.NewFakeNeverRateLimiter()}
			if err := w.write(t.Context(), s.limited(patience, full)); kindOf(t, err) != "none" || !errors.Is(err, kubeclient.ErrThrottled) || len(s.requests()) != 0 {
				t.Errorf("held back: %v", err)
			}
		})
	}
}

// fullLimit is the client's own rate limiter when it has no turn to give.
type fullLimit struct{ flowcontrol.RateLimiter }

func (fullLimit) Wait(context.Context) error {
	return fmt.Errorf("%w: no turn", kubeclient.ErrThrottled)
}

// TestWhatIsSent: every delete names the uid, every change the version it rests on.
func TestWhatIsSent(t *testing.T) {
	beta, alpha := at(), at()
	alpha.Version = sandboxapi.V1alpha1
	s := newSite(t, nil)
	c := s.cluster(patience)
	change := func(at *sandboxapi.Object, change cluster.Change) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.ChangeSandbox(ctx, at, change)
			return err
		}
	}
	all := writings()
	by := func(name string) func(context.Context) error {
		return func(ctx context.Context) error { return all[name].write(ctx, c) }
	}
	const metadata = `"metadata":{"resourceVersion":"41","uid":"uid-box"}`
	const tests = `{"op":"test","path":"/metadata/uid","value":"uid-box"},{"op":"test","path":"/metadata/generation","value":3},{"op":"test","path":"/metadata/labels","value":{"l":"m"}},` +
		`{"op":"test","path":"/metadata/annotations","value":{"a":"before","gone":"soon","kept":"k"}}`
	whole, wholeOld := at(), at()
	wholeOld.Version = sandboxapi.V1alpha1
	for _, o := range [...]*sandboxapi.Object{whole, wholeOld} {
		o.Generation, o.Labels, o.Annotations = 3, map[string]string{"l": "m"}, map[string]string{"a": "before", "gone": "soon", "kept": "k"}
	}
	for name, tc := range map[string]struct {
		send              func(context.Context) error
		answer            any
		path, kind, wants string
	}{
		"delete pod":     {by("delete pod"), all["delete pod"].done, "", "", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"uid-box"},"propagationPolicy":"Foreground"}`},
		"delete service": {by("delete service"), all["delete service"].done, "", "", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"uid-box"}}`},
		"delete secret":  {by("delete secret"), all["delete secret"].done, "", "", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"uid-box"}}`},
		"ungate": {by("ungate"), all["ungate"].done, "", "application/json-patch+json", `[{"op":"test","path":"/metadata/uid","value":"uid-box"},{"op":"test","path":"/metadata/resourceVersion","value":"41"},
			{"op":"test","path":"/spec/schedulingGates/1/name","value":"openshell.ai/bootstrap"},{"op":"remove","path":"/spec/schedulingGates/1"},
			{"op":"add","path":"/metadata/annotations","value":{"note":"n"}}]`},
		"ungate, beside other annotations": {func(ctx context.Context) error {
			_, err := c.Ungate(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "box", UID: "u", ResourceVersion: "1", Annotations: map[string]string{"a": "b", "note": "old"}}}, gate, 0, map[string]string{"note": "n"})
			return err
		}, all["ungate"].done, "", "", `[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/resourceVersion","value":"1"},
			{"op":"test","path":"/spec/schedulingGates/0/name","value":"openshell.ai/bootstrap"},{"op":"remove","path":"/spec/schedulingGates/0"},
			{"op":"add","path":"/metadata/annotations","value":{"a":"b","note":"n"}}]`},
		"annotations": {
			change(beta, cluster.Change{Annotations: map[string]any{"a": "b", "gone": nil}}), sandbox("v1beta1"), "v1beta1", "application/merge-patch+json",
			`{"metadata":{"resourceVersion":"41","uid":"uid-box","annotations":{"a":"b","gone":null}}}`,
		},
		"whatever the status": {
			change(whole, cluster.Change{Annotations: map[string]any{"a": "b", "gone": nil, "absent": nil}, Mode: sandboxapi.Running, WhateverStatus: true}), sandbox("v1beta1"), "v1beta1", "application/json-patch+json",
			`[` + tests + `,{"op":"add","path":"/metadata/annotations","value":{"a":"b","kept":"k"}},{"op":"add","path":"/spec/operatingMode","value":"Running"}]`,
		},
		"whatever the status, old": {
			change(wholeOld, cluster.Change{Mode: sandboxapi.Suspended, WhateverStatus: true}), sandbox("v1alpha1"), "v1alpha1", "application/json-patch+json",
			`[` + tests + `,{"op":"add","path":"/spec/replicas","value":0}]`,
		},
		"whatever the status, with nothing to test": {
			change(beta, cluster.Change{Mode: sandboxapi.Running, WhateverStatus: true}), sandbox("v1beta1"), "v1beta1", "application/merge-patch+json", `{` + metadata + `,"spec":{"operatingMode":"Running"}}`,
		},
		"whatever the status, with volumes": {
			change(whole, cluster.Change{Volumes: []corev1.Volume{{Name: "v"}}, WhateverStatus: true}), sandbox("v1beta1"), "v1beta1", "application/merge-patch+json",
			`{` + metadata + `,"spec":{"podTemplate":{"spec":{"volumes":[{"name":"v"}],"imagePullSecrets":null}}}}`,
		},
		"run":          {change(beta, cluster.Change{Mode: sandboxapi.Running}), sandbox("v1beta1"), "v1beta1", "", `{` + metadata + `,"spec":{"operatingMode":"Running"}}`},
		"suspend":      {change(beta, cluster.Change{Mode: sandboxapi.Suspended}), sandbox("v1beta1"), "v1beta1", "", `{` + metadata + `,"spec":{"operatingMode":"Suspended"}}`},
		"run, old":     {change(alpha, cluster.Change{Mode: sandboxapi.Running}), sandbox("v1alpha1"), "v1alpha1", "", `{` + metadata + `,"spec":{"replicas":1}}`},
		"suspend, old": {change(alpha, cluster.Change{Mode: sandboxapi.Suspended}), sandbox("v1alpha1"), "v1alpha1", "", `{` + metadata + `,"spec":{"replicas":0}}`},
		"volumes": {
			change(beta, cluster.Change{Volumes: []corev1.Volume{{Name: "v"}}}), sandbox("v1beta1"), "v1beta1", "",
			`{` + metadata + `,"spec":{"podTemplate":{"spec":{"volumes":[{"name":"v"}],"imagePullSecrets":null}}}}`,
		},
		"volumes and pull Secrets": {
			change(beta, cluster.Change{Volumes: []corev1.Volume{{Name: "v"}}, PullSecrets: []corev1.LocalObjectReference{{Name: "p"}}}), sandbox("v1beta1"), "v1beta1", "",
			`{` + metadata + `,"spec":{"podTemplate":{"spec":{"volumes":[{"name":"v"}],"imagePullSecrets":[{"name":"p"}]}}}}`,
		},
	} {
		s.on(object(tc.answer))
		if err := tc.send(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sent := s.one()
		var got, want any
		if err := errors.Join(json.Unmarshal(sent.body, &got), json.Unmarshal([]byte(tc.wants), &want)); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, sent.body)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !strings.Contains(sent.path, tc.path) || tc.kind != "" && sent.contentType != tc.kind {
			t.Errorf("%s: %s, %s", name, sent.path, sent.contentType)
		}
	}
}

// TestASecretIsDeletedByItsUID: nobody may look whose one of that name is.
func TestASecretIsDeletedByItsUID(t *testing.T) {
	s := newSite(t, hang)
	if err := s.cluster(patience).DeleteSecret(t.Context(), "team", "box", ""); err == nil || len(s.requests()) != 0 {
		t.Errorf("%v, %+v", err, s.requests())
	}
}

// TestChangeOfAnUnknownVersionIsNotSent: there is no mode without a version.
func TestChangeOfAnUnknownVersionIsNotSent(t *testing.T) {
	s := newSite(t, hang)
	unknown := at()
	unknown.Version = "v2"
	if _, err := s.cluster(patience).ChangeSandbox(t.Context(), unknown, cluster.Change{Mode: sandboxapi.Running}); err == nil || len(s.requests()) != 0 {
		t.Errorf("%v, %+v", err, s.requests())
	}
}

// TestAnswersAreUsed: what a write answers replaces what was seen.
func TestAnswersAreUsed(t *testing.T) {
	s := newSite(t, object(sandbox("v1beta1")))
	c := s.cluster(patience)
	changed, err := c.ChangeSandbox(t.Context(), at(), cluster.Change{})
	if err != nil || changed.ResourceVersion != "41" || changed.Generation != 2 {
		t.Errorf("%+v, %v", changed, err)
	}
	s.on(object(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "made"}}))
	if pod, err := c.CreatePod(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "box"}}); err != nil || pod.UID != "made" {
		t.Errorf("%+v, %v", pod, err)
	}
	// A write that was done and answered with something else is not known to be done.
	s.on(object(map[string]any{"apiVersion": "agents.x-k8s.io/v9", "kind": "Sandbox", "metadata": map[string]any{"name": "box"}}))
	if _, err := c.ChangeSandbox(t.Context(), at(), cluster.Change{}); !errors.Is(err, cluster.ErrUnsettled) {
		t.Errorf("%v", err)
	}
}

// TestASecretIsSentOnce: client-go sends a request again by itself after an answer of which nobody knows whether it was carried out, when
// the answer says when to. A Secret that was made then would be in its own way.
func TestASecretIsSentOnce(t *testing.T) {
	unavailable := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		refusal(500, metav1.StatusReasonServerTimeout, "etcdserver: request timed out", &metav1.StatusDetails{RetryAfterSeconds: 1})(w, r)
	}
	s := newSite(t, unavailable)
	_, err := s.cluster(patience).CreateSecret(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "box"}})
	if n := len(s.requests()); n != 1 || !errors.Is(err, cluster.ErrUnsettled) {
		t.Errorf("%d requests, %v", n, err)
	}
	s.on(unavailable)
	_, err = s.cluster(patience).ChangeSandbox(t.Context(), at(), cluster.Change{Annotations: map[string]any{"a": "b"}})
	if n := len(s.requests()); n != 1 || !errors.Is(err, cluster.ErrUnsettled) {
		t.Errorf("a change of the Sandbox: %d requests, %v", n, err)
	}
	s.on(object(corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "made"}, Data: map[string][]byte{"a": []byte("b")}}))
	uid, err := s.cluster(patience).CreateSecret(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "box"}, Data: map[string][]byte{"a": []byte("b")}})
	if sent := s.one(); err != nil || uid != "made" || !strings.Contains(string(sent.body), `"name":"box"`) || !strings.Contains(string(sent.body), `"a":"Yg=="`) {
		t.Errorf("%q, %v, %s", uid, err, sent.body)
	}
}

// TestNoErrorRepeatsASecret: whoever refuses one may send it back, in any part of the answer.
func TestNoErrorRepeatsASecret(t *testing.T) {
	const key = "the key"
	echo := &metav1.StatusDetails{Kind: key, Name: key, Causes: []metav1.StatusCause{{Message: key}}}
	raw := func(format string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = fmt.Fprintf(conn, format, key)
			_ = conn.Close()
		}
	}
	answers := map[string]http.HandlerFunc{
		"no HTTP":   raw("%s\r\n\r\n"),
		"a status":  raw("HTTP/1.1 %s\r\n\r\n"),
		"a header":  raw("HTTP/1.1 200 OK\r\n%s\r\n\r\n"),
		"no JSON":   plain(200, key),
		"a webhook": refusal(403, metav1.StatusReasonForbidden, `admission webhook "x" denied the request: exceeded quota: `+key, echo),
	}
	for _, code := range []int{400, 401, 403, 404, 409, 413, 422, 429, 500, 503} {
		answers[fmt.Sprintf("%d", code)] = refusal(code, key, key, echo)
		answers[fmt.Sprintf("%d of a proxy", code)] = plain(code, key)
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, answer)
			c := s.cluster(patience)
			for what, err := range map[string]error{
				"create": writings()["create secret"].write(t.Context(), c),
				"delete": c.DeleteSecret(t.Context(), "team", "box", "uid-box"),
			} {
				if err == nil && name == "no JSON" && what == "delete" {
					continue // of the answer to a delete nothing is used but its code
				}
				if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, errors.Unwrap(err)), key) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	s := newSite(t, refusal(403, metav1.StatusReasonForbidden, `secrets "box" is forbidden: exceeded quota: q, requested: secrets=1`, nil))
	if err := writings()["create secret"].write(t.Context(), s.cluster(patience)); !errors.Is(err, cluster.ErrRefused) || !strings.Contains(err.Error(), "exceeded quota: q") {
		t.Errorf("a quota is not named: %v", err)
	}
}
