package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// reading is one method that reads the object "box" of the namespace "team".
type reading struct {
	path, group, resource string
	found                 any
	read                  func(context.Context, *cluster.Cluster) (uid string, err error)
}

func metadata() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "team", Name: "box", UID: "uid-box"}
}

func uidOf(o metav1.Object, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return string(o.GetUID()), nil
}

func readings() map[string]reading {
	const core, team = "/api/v1/namespaces/team/", "team"
	return map[string]reading{
		"namespace": {"/api/v1/namespaces/box", "", "namespaces", corev1.Namespace{ObjectMeta: metadata()}, func(ctx context.Context, c *cluster.Cluster) (string, error) {
			return uidOf(c.Namespace(ctx, "box"))
		}},
		"pod": {core + "pods/box", "", "pods", corev1.Pod{ObjectMeta: metadata()}, func(ctx context.Context, c *cluster.Cluster) (string, error) {
			return uidOf(c.Pod(ctx, team, "box"))
		}},
		"service": {core + "services/box", "", "services", corev1.Service{ObjectMeta: metadata()}, func(ctx context.Context, c *cluster.Cluster) (string, error) {
			return uidOf(c.Service(ctx, team, "box"))
		}},
		"secret": {core + "secrets/box", "", "secrets", corev1.Secret{ObjectMeta: metadata()}, func(ctx context.Context, c *cluster.Cluster) (string, error) {
			return uidOf(c.SourceSecret(ctx, team, "box"))
		}},
		"policy": {
			"/apis/networking.k8s.io/v1/namespaces/team/networkpolicies/box", "networking.k8s.io", "networkpolicies",
			networkingv1.NetworkPolicy{ObjectMeta: metadata()},
			func(ctx context.Context, c *cluster.Cluster) (string, error) {
				return uidOf(c.Policy(ctx, team, "box"))
			},
		},
		"sandbox": {
			"/apis/agents.x-k8s.io/v1beta1/namespaces/team/sandboxes/box", "agents.x-k8s.io", "sandboxes", sandbox("v1beta1"),
			func(ctx context.Context, c *cluster.Cluster) (string, error) {
				o, err := c.Sandbox(ctx, team, "box")
				if err != nil {
					return "", err
				}
				return o.UID, nil
			},
		},
	}
}

// TestReads: only the API server itself, and only of this very object, can say that it is absent.
func TestReads(t *testing.T) {
	for name, r := range readings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			details := func(change func(*metav1.StatusDetails)) *metav1.StatusDetails {
				d := &metav1.StatusDetails{Group: r.group, Kind: r.resource, Name: "box"}
				change(d)
				return d
			}
			answers := map[string]struct {
				answer http.HandlerFunc
				absent bool
			}{
				"absent":         {refusal(404, metav1.StatusReasonNotFound, "not found", details(func(*metav1.StatusDetails) {})), true},
				"another name":   {refusal(404, metav1.StatusReasonNotFound, "not found", details(func(d *metav1.StatusDetails) { d.Name = "other" })), false},
				"another kind":   {refusal(404, metav1.StatusReasonNotFound, "not found", details(func(d *metav1.StatusDetails) { d.Kind = "others" })), false},
				"another group":  {refusal(404, metav1.StatusReasonNotFound, "not found", details(func(d *metav1.StatusDetails) { d.Group = "others" })), false},
				"another reason": {refusal(404, metav1.StatusReasonGone, "not found", details(func(*metav1.StatusDetails) {})), false},
				"no details":     {refusal(404, metav1.StatusReasonNotFound, "not found", nil), false},
				"path not found": {plain(404, "404 page not found"), false},
				"forbidden":      {refusal(403, metav1.StatusReasonForbidden, "no", details(func(*metav1.StatusDetails) {})), false},
				"too many":       {refusal(429, metav1.StatusReasonTooManyRequests, "later", nil), false},
				"internal":       {refusal(500, metav1.StatusReasonInternalError, "no", nil), false},
				"proxy":          {plain(503, "no backend"), false},
				"cut off":        {cut, false},
				"not even JSON":  {plain(200, "hello"), false},
			}
			s := newSite(t, nil)
			c := s.cluster(patience)
			for what, a := range answers {
				s.on(a.answer)
				if uid, err := r.read(t.Context(), c); err == nil || errors.Is(err, cluster.ErrAbsent) != a.absent || uid != "" {
					t.Errorf("%s: %q, %v", what, uid, err)
				} else if errors.Is(err, cluster.ErrRefused) != (what == "forbidden" && r.resource == "secrets") {
					t.Errorf("%s: %v", what, err)
				} else if !strings.Contains(err.Error(), "box") || !strings.Contains(err.Error(), r.resource) {
					t.Errorf("%s: the error does not say of what: %v", what, err)
				}
			}
			s.on(object(r.found))
			if uid, err := r.read(t.Context(), c); err != nil || uid != "uid-box" || s.one().path != r.path || s.one().method != http.MethodGet {
				t.Errorf("%q, %v: %+v", uid, err, s.requests())
			}
		})
	}
}

// TestReadsEndInTime: a request is given up at its own deadline, and one of a call that has ended is not begun.
func TestReadsEndInTime(t *testing.T) {
	for name, r := range readings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, hang)
			if _, err := r.read(t.Context(), s.cluster(20*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cluster.ErrUnsettled) {
				t.Errorf("%v", err)
			}
			ended, end := context.WithCancel(t.Context())
			end()
			s.on(hang)
			if _, err := r.read(ended, s.cluster(patience)); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	list := networkingv1.NetworkPolicyList{Items: []networkingv1.NetworkPolicy{{ObjectMeta: metadata()}}}
	s := newSite(t, object(list))
	c := s.cluster(patience)
	if found, err := c.Policies(t.Context(), "team"); err != nil || len(found) != 1 || s.one().path != "/apis/networking.k8s.io/v1/namespaces/team/networkpolicies" {
		t.Errorf("%v, %v, %+v", found, err, s.requests())
	}
	list.Continue = "more"
	s.on(object(list))
	if found, err := c.Policies(t.Context(), "team"); err == nil || found != nil || !strings.Contains(err.Error(), "team has more than 1000") {
		t.Errorf("%v, %v", found, err)
	}
	s.on(plain(404, "404 page not found"))
	if _, err := c.Policies(t.Context(), "team"); err == nil || errors.Is(err, cluster.ErrAbsent) || !strings.Contains(err.Error(), "list networkpolicies") {
		t.Errorf("%v", err)
	}
}

func TestNewWantsAClientAndATimeout(t *testing.T) {
	if _, err := cluster.New(kubeclient.Client{}, time.Second); err == nil {
		t.Error("no client")
	}
	if _, err := cluster.New(kubeclient.Client{}, 0); err == nil || !strings.Contains(err.Error(), "timeout is 0s") {
		t.Errorf("%v", err)
	}
}

// serves answers like an API server that has some versions of the resource.
func serves(versions ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, v := range versions {
			if strings.Contains(r.URL.Path, "/"+v+"/") {
				object(sandbox(v))(w, r)
				return
			}
		}
		plain(404, "404 page not found")(w, r)
	}
}

// TestVersions: the newest one that is served is used, and changes of what is served are followed.
func TestVersions(t *testing.T) {
	s := newSite(t, serves("v1alpha1"))
	c := s.cluster(patience)
	now := time.Unix(1000, 0)
	cluster.SetClock(c, func() time.Time { return now })
	expect := func(step string, version sandboxapi.Version, requests int) {
		t.Helper()
		o, err := c.Sandbox(t.Context(), "team", "box")
		if err != nil || o.Version != version || o.Mode != sandboxapi.Suspended || len(s.requests()) != requests {
			t.Fatalf("%s: %+v, %v, %d requests", step, o, err, len(s.requests()))
		}
	}
	expect("only the older one", sandboxapi.V1alpha1, 2)
	s.on(serves("v1alpha1"))
	expect("it is asked for at once", sandboxapi.V1alpha1, 1)
	s.on(serves("v1beta1", "v1alpha1"))
	expect("an upgrade is not noticed yet", sandboxapi.V1alpha1, 1)
	now = now.Add(cluster.Reprobe)
	s.on(serves("v1beta1", "v1alpha1"))
	expect("an upgrade is noticed", sandboxapi.V1beta1, 1)
	s.on(serves("v1beta1", "v1alpha1"))
	expect("it stays", sandboxapi.V1beta1, 1)
	s.on(serves("v1alpha1"))
	expect("a downgrade", sandboxapi.V1alpha1, 2)
	s.on(serves("v1beta1"))
	expect("the older one is gone", sandboxapi.V1beta1, 2)

	s.on(serves())
	if _, err := c.Sandbox(t.Context(), "team", "box"); err == nil || errors.Is(err, cluster.ErrAbsent) || !strings.Contains(err.Error(), "install the Agent Sandbox definitions") {
		t.Errorf("none is served: %v", err)
	}
	// A failure says nothing of what is served: the newer one is still asked for first.
	s.on(serves("v1alpha1"))
	expect("the older one again", sandboxapi.V1alpha1, 2)
	now = now.Add(cluster.Reprobe)
	s.on(plain(503, "no"))
	if _, err := c.Sandbox(t.Context(), "team", "box"); err == nil || len(s.requests()) != 1 {
		t.Errorf("%v, %d requests", err, len(s.requests()))
	}
	s.on(serves("v1beta1"))
	expect("after a failure", sandboxapi.V1beta1, 1)
}
