package observe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// answers is an API server that answers each path with what the test put there: one after another, the last one for ever.
type answers struct {
	mu    sync.Mutex
	by    map[string][]answer
	asked []string
}

// answer has a code and a body; a watch's body is its events.
type answer struct {
	code int
	body any
}

// ServeHTTP fulfils http.Handler. The key of a request is its path; "?watch" follows for a watch, "?continue" for a further page.
func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	key := r.URL.Path
	switch {
	case q.Get("watch") != "":
		key += "?watch"
	case q.Get("continue") != "":
		key += "?continue"
	}
	a.mu.Lock()
	a.asked = append(a.asked, key+" "+q.Get("labelSelector")+" limit="+q.Get("limit")+" rv="+q.Get("resourceVersion")+" bookmarks="+q.Get("allowWatchBookmarks"))
	all := a.by[key]
	out := answer{code: http.StatusNotFound, body: failure(http.StatusNotFound, metav1.StatusReasonNotFound)}
	if len(all) > 0 {
		out = all[0]
		if len(all) > 1 {
			a.by[key] = all[1:]
		}
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(out.code)
	if lines, isWatch := out.body.([]any); isWatch {
		for _, line := range lines {
			_ = json.NewEncoder(w).Encode(line)
		}
		return
	}
	_ = json.NewEncoder(w).Encode(out.body)
}

func (a *answers) put(key string, code int, body any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by[key] = append(a.by[key], answer{code: code, body: body})
}

func (a *answers) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

func failure(code int, reason metav1.StatusReason) map[string]any {
	return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": string(reason), "code": code, "message": string(reason)}
}

func event(form string, object any) map[string]any {
	return map[string]any{"type": form, "object": object}
}

// list is a list of one of the resources.
func list(apiVersion, kind, version, next string, items ...any) map[string]any {
	if items == nil {
		items = []any{}
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"resourceVersion": version, "continue": next}, "items": items}
}

// rawBox is a Sandbox as JSON.
func rawBox(v sandboxapi.Version, uid, id, resourceVersion string) map[string]any {
	return map[string]any{
		"apiVersion": v.APIVersion(), "kind": sandboxapi.Kind,
		"metadata": map[string]any{
			"namespace": "openshell", "name": "team--" + uid, "uid": uid, "resourceVersion": resourceVersion, "generation": 1,
			"labels": map[string]any{
				workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: "blue", workspace.LabelSandboxID: id,
				workspace.LabelSandboxName: "n-" + id, workspace.LabelSandboxWorkspace: "team",
			},
		},
		"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{}}}},
	}
}

func rawPod(uid, resourceVersion string, edit func(p map[string]any)) map[string]any {
	p := map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"namespace": "openshell", "name": "p-" + uid, "uid": uid, "resourceVersion": resourceVersion,
			"labels":          map[string]any{workspace.LabelBoundaryRole: workspace.RoleWorkload},
			"ownerReferences": []any{map[string]any{"apiVersion": sandboxapi.V1beta1.APIVersion(), "kind": "Sandbox", "name": "team--u1", "uid": "u1", "controller": true}},
		},
	}
	if edit != nil {
		edit(p)
	}
	return p
}

func rawEvent(uid, resourceVersion string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"namespace": "openshell", "name": uid, "uid": uid, "resourceVersion": resourceVersion},
		"involvedObject": map[string]any{"kind": "Pod", "namespace": "openshell", "name": "p", "uid": "p"}, "reason": "Pulled", "type": "Normal", "count": 1,
	}
}

// serve makes a Kube of an API server.
func serve(t *testing.T, mode driverconf.Mode) (*Kube, *answers) {
	t.Helper()
	a := &answers{by: map[string][]answer{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.ContentType = "application/json"
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	typed, err := kubernetes.NewForConfigAndClient(config, client)
	must(t, err)
	dyn, err := dynamic.NewForConfigAndClient(config, client)
	must(t, err)
	k := kubeclient.Client{Typed: typed, Dynamic: dyn}
	s := scheme
	s.Mode = mode
	kube, err := NewKube(s, k, k)
	must(t, err)
	return kube, a
}

// path is where Sandboxes of a version are.
func path(v sandboxapi.Version, namespaced bool) string {
	if namespaced {
		return fmt.Sprintf("/apis/%s/namespaces/openshell/sandboxes", v.APIVersion())
	}
	return fmt.Sprintf("/apis/%s/sandboxes", v.APIVersion())
}

const ourSelector = "openshell.ai/gateway-id=blue,openshell.ai/managed-by=openshell,openshell.ai/sandbox-id"

func trimmed(all []string) string { return strings.Join(all, "\n") }
