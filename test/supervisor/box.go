package supervisor

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

// Box is a Sandbox as lifecycle leaves it before it asks for the set.
type Box struct {
	Namespace, Name, UID string
	// ID is the gateway's id of the sandbox, a UUID.
	ID string
	// Run is the one that it was made for.
	Run  Run
	site *Site
}

// Run names one run.
type Run struct {
	Generation, Session string
	Epoch               uint64
}

// Draft is a Box that is not made yet.
type Draft struct {
	Sandbox *api.Sandbox
	// Pod is the spec of the template.
	Pod *corev1.PodSpec
}

// uuid is random, version 4.
func uuid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// NewRun is a run that nobody has had; the epoch is for the caller to choose.
func NewRun(epoch uint64) Run {
	return Run{Generation: "g" + strings.ReplaceAll(uuid(), "-", "")[:16], Session: uuid(), Epoch: epoch}
}

// Box makes a Sandbox in a namespace as lifecycle does, but for what changes change.
func (s *Site) Box(namespace string, changes ...func(*Draft)) *Box {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	b, err := s.Make(ctx, namespace, changes...)
	s.must("make a Sandbox", err)
	return b
}

// Make is Box for other goroutines.
func (s *Site) Make(ctx context.Context, namespace string, changes ...func(*Draft)) (*Box, error) {
	b := &Box{Namespace: namespace, ID: uuid(), Run: NewRun(1), site: s}
	b.Name = s.named(b)
	draft := &Draft{Sandbox: s.sandbox(b), Pod: template(b)}
	for _, change := range changes {
		change(draft)
	}
	pod, err := api.Encode(draft.Pod)
	if err != nil {
		return nil, err
	}
	draft.Sandbox.Spec.PodTemplate.Spec = pod
	object, err := api.Encode(draft.Sandbox)
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	made, err := s.sandboxes(namespace).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	b.Name, b.UID = made.GetName(), string(made.GetUID())
	return b, nil
}

// sandbox is the object without the spec of its Pod (contract 4.3, 4.4, 7.2 step 11).
func (s *Site) sandbox(b *Box) *api.Sandbox {
	box := &api.Sandbox{
		TypeMeta: metav1.TypeMeta{APIVersion: s.Dialect.Version.APIVersion(), Kind: api.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: b.Name,
			Labels: map[string]string{
				"openshell.ai/managed-by": "openshell", "openshell.ai/sandbox-id": b.ID, "openshell.ai/sandbox-name": b.short(),
				"openshell.ai/sandbox-workspace": s.workspace(b.Namespace), "openshell.ai/gateway-id": s.GatewayID,
			},
			Annotations: map[string]string{
				"openshell.ai/sandbox-id": b.ID, "openshell.ai/sandbox-name": b.short(), "openshell.ai/sandbox-workspace": s.workspace(b.Namespace),
				"openshell.ai/sandbox-runtime-bootstrapping":           "true",
				"openshell.ai/sandbox-runtime-bootstrap-started-at-ms": strconv.FormatInt(time.Now().UnixMilli(), 10),
				"openshell.ai/sandbox-runtime-bootstrap-operation":     "create",
				"openshell.ai/sandbox-runtime-bootstrap-phase":         "preparing",
				"openshell.ai/sandbox-runtime-generation":              b.Run.Generation,
				"openshell.ai/sandbox-runtime-main-process-spec":       `{"version":1,"command":["/bin/run","--all"],"tty":false}`,
				"openshell.ai/sandbox-runtime-log-level":               "info",
			},
		},
	}
	box.Spec.PodTemplate.Metadata = api.TemplateMetadata{
		Labels:      map[string]string{"openshell.ai/boundary-pair": b.ID, "openshell.ai/boundary-role": "workload"},
		Annotations: map[string]string{"openshell.ai/sandbox-id": b.ID, "openshell.io/sandbox-id": b.ID},
	}
	box.Spec.VolumeClaimTemplates = []api.ClaimTemplate{{
		Metadata: api.TemplateMetadata{Name: "workspace"},
		Spec: map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
		},
	}}
	if s.Dialect.Version == api.V1alpha1 {
		box.Spec.Replicas = new(int64)
	} else {
		box.Spec.OperatingMode = api.ModeSuspended
	}
	return box
}

// SecretName is the name of a bootstrap Secret of a run; kind is sandbox or supervisor (contract 4.2).
func (b *Box) SecretName(kind, generation string) string {
	short := strings.Map(func(r rune) rune {
		if r == '-' {
			return -1
		}
		return r
	}, generation)
	return "os-" + kind + "-" + b.ID + "-" + short[:min(len(short), 12)]
}

// SupervisorName is the name of the supervisor Pod, ServiceName of the boundary Service.
func (b *Box) SupervisorName() string { return "os-supervisor-" + b.ID }

// ServiceName is the name of the boundary Service.
func (b *Box) ServiceName() string { return "os-boundary-" + b.ID }

// Object is the Sandbox now.
func (b *Box) Object(ctx context.Context) (*api.Sandbox, error) {
	u, err := b.site.sandboxes(b.Namespace).Get(ctx, b.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return api.Decode(u)
}

// Patch is somebody's merge patch of the Sandbox.
func (b *Box) Patch(patch string) {
	b.site.t.Helper()
	_, err := b.site.sandboxes(b.Namespace).Patch(b.site.t.Context(), b.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	b.site.must("patch a Sandbox", err)
}

// Delete is somebody's deletion of the Sandbox.
func (b *Box) Delete() {
	b.site.t.Helper()
	b.site.must("delete a Sandbox", b.site.sandboxes(b.Namespace).Delete(b.site.t.Context(), b.Name, metav1.DeleteOptions{}))
}
