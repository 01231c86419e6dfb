package apitest

import (
	"encoding/base64"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// The bearer of the world and what belongs to it.
const (
	GatewayID      = "a"
	Team           = "b-c"
	SandboxID      = "0A4B8C1E-5f0e"
	PodName        = "os-supervisor-0a4b8c1e-5f0e"
	PodUID         = "7c1d2e3f-0a4b-4c8d-8e9f-a0b1c2d3e4f5"
	SandboxName    = "box"
	SandboxUID     = "0a4b8c1e-5f0e-4d9a-9a51-6f7a3c2b1d00"
	NamespaceUID   = "5e5e5e5e-0000-4000-8000-000000000001"
	ServiceAccount = "sandbox-runner"
)

// Identity is the runtime identity of the bearer in a mode.
func Identity(mode driverconf.Mode) string {
	return fmt.Sprintf("kubernetes://%s/%s/%s", NamespaceIn(mode), SandboxUID, PodUID)
}

// NamespaceIn is where the bearer lives.
func NamespaceIn(mode driverconf.Mode) string {
	switch mode {
	case driverconf.ModeShared:
		return "sandboxes"
	case driverconf.ModeManaged:
		return "openshell-a-b-c"
	default:
		return Team
	}
}

// Settings are the stock settings of the bearer's gateway.
func Settings(mode driverconf.Mode) *driverconf.Kubernetes {
	return &driverconf.Kubernetes{WorkspaceMode: mode, GatewayID: GatewayID, Namespace: "sandboxes", ServiceAccountName: ServiceAccount}
}

// World is what the server knows. A nil object does not exist.
type World struct {
	// Token is the one that the review accepts, as its status says; other tokens are refused.
	Token  string
	Status authenticationv1.TokenReviewStatus
	// Namespace, Pod and Sandbox are the objects.
	Namespace, Pod, Sandbox *metav1.PartialObjectMetadata
	// SpecBytes is how large the rest of each object is, beside its metadata.
	SpecBytes int
	// AsTheRealOneReads makes the review look at the first word of what it is given, as the real one does; otherwise tokens are
	// compared as they are.
	AsTheRealOneReads bool
	// RefusedWith is the error of the review of another token; %s in it is the token, which no real server says.
	RefusedWith string
}

// Valid is the world of the bearer that every check accepts.
func Valid(mode driverconf.Mode) *World {
	namespace := NamespaceIn(mode)
	w := &World{
		Token:       Token(namespace, PodName, PodUID),
		RefusedWith: "[invalid bearer token]",
		Status: authenticationv1.TokenReviewStatus{
			Authenticated: true, Audiences: []string{"openshell-gateway"},
			User: authenticationv1.UserInfo{
				Username: "system:serviceaccount:" + namespace + ":" + ServiceAccount,
				Extra: map[string]authenticationv1.ExtraValue{
					"authentication.kubernetes.io/pod-name": {PodName}, "authentication.kubernetes.io/pod-uid": {PodUID},
				},
			},
		},
		Namespace: newObject("v1", "Namespace", "", namespace, NamespaceUID),
		Pod:       pod(namespace),
		Sandbox:   sandbox(namespace),
	}
	if mode == driverconf.ModeManaged {
		w.Namespace.Labels = map[string]string{
			"openshell.ai/managed-by": "openshell", "openshell.ai/gateway-id": GatewayID, "openshell.ai/sandbox-workspace": Team,
		}
	}
	return w
}

func pod(namespace string) *metav1.PartialObjectMetadata {
	p := newObject("v1", "Pod", namespace, PodName, PodUID)
	p.Annotations = map[string]string{"openshell.ai/sandbox-id": SandboxID}
	p.Labels = map[string]string{
		"openshell.ai/boundary-role": "supervisor", "openshell.ai/boundary-pair": strings.ToLower(SandboxID), "openshell.ai/sandbox-id": SandboxID,
	}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Name: SandboxName, UID: SandboxUID}}
	return p
}

func sandbox(namespace string) *metav1.PartialObjectMetadata {
	s := newObject("agents.x-k8s.io/v1beta1", "Sandbox", namespace, SandboxName, SandboxUID)
	s.Labels = map[string]string{
		"openshell.ai/managed-by": "openshell", "openshell.ai/sandbox-id": SandboxID, "openshell.ai/gateway-id": GatewayID,
		"openshell.ai/sandbox-workspace": Team,
	}
	s.Annotations = map[string]string{"openshell.ai/sandbox-runtime-supervisor-uid": PodUID}
	return s
}

func newObject(apiVersion, kind, namespace, name, uid string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)},
	}
}

// Token is a token in the form of the cluster's, with claims about a Pod and a signature that nobody checks.
func Token(namespace, podName, podUID string) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return strings.Join([]string{
		part(`{"alg":"RS256","kid":"test"}`),
		part(fmt.Sprintf(`{"aud":["openshell-gateway"],"kubernetes.io":{"namespace":%q,"pod":{"name":%q,"uid":%q}},"sub":"x"}`, namespace, podName, podUID)),
		part("a signature of " + podUID),
	}, ".")
}

func (w *World) review(spec authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus {
	presented := spec.Token
	if fields := strings.Fields(presented); w.AsTheRealOneReads && len(fields) > 0 {
		presented = fields[0]
	}
	if presented != w.Token && !(w.AsTheRealOneReads && leniently(presented) == leniently(w.Token)) {
		return authenticationv1.TokenReviewStatus{Error: strings.ReplaceAll(w.RefusedWith, "%s", spec.Token)}
	}
	return w.Status
}

// leniently is what a decoder reads that does not look at bits that say nothing.
func leniently(token string) string {
	var out []string
	for part := range strings.SplitSeq(token, ".") {
		text, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			return token
		}
		out = append(out, string(text))
	}
	return strings.Join(out, ".")
}

// find is the object that a request names, in the form that it asks for; nil when there is none.
func (w *World) find(q object, onlyMetadata bool) any {
	found := map[string]*metav1.PartialObjectMetadata{Namespaces: w.Namespace, Pods: w.Pod, Sandboxes: w.Sandbox}[q.resource]
	switch {
	case found == nil || found.Name != q.name || found.Namespace != q.namespace:
		return nil
	case found.GroupVersionKind().Group != q.group || found.GroupVersionKind().Version != q.version:
		return nil
	case onlyMetadata:
		out := *found
		out.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
		return &out
	default:
		return &whole{PartialObjectMetadata: *found, Spec: map[string]string{"text": strings.Repeat("x", w.SpecBytes)}}
	}
}

// whole is an object as it is for who does not ask for its metadata only.
type whole struct {
	metav1.PartialObjectMetadata `json:",inline"`

	Spec map[string]string `json:"spec"`
}

// object is what a path names.
type object struct{ group, version, resource, namespace, name string }

func (o object) String() string {
	if o.namespace != "" {
		return o.resource + " " + o.namespace + "/" + o.name
	}
	return o.resource + " " + o.name
}

func parse(path string) object {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var o object
	switch {
	case parts[0] == "api" && len(parts) > 2:
		o.version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		o.group, o.version, parts = parts[1], parts[2], parts[3:]
	default:
		return object{resource: path}
	}
	if parts[0] == Namespaces && len(parts) > 2 {
		o.namespace, parts = parts[1], parts[2:]
	}
	o.resource = parts[0]
	if len(parts) > 1 {
		o.name = parts[1]
	}
	return o
}
