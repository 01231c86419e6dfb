package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// MaxBytes is how large a rendered Sandbox can be, as JSON: what request.MaxBytes allows and the driver's own. It is two thirds of
// what etcd takes.
const MaxBytes = 1 << 20

// Sandbox is the object to create.
func (r *Renderer) Sandbox(sandbox request.Sandbox, run Run) (*unstructured.Unstructured, error) {
	spec := sandbox.Spec()
	object, err := r.sandbox(&spec, &run)
	if err != nil {
		return nil, fmt.Errorf("rendering the Sandbox: %w", err)
	}
	return object, nil
}

func (r *Renderer) sandbox(s *request.Spec, run *Run) (*unstructured.Unstructured, error) {
	if err := errors.Join(r.checkPod(s, run), run.check()); err != nil {
		return nil, err
	}
	pod := r.pod(s, run)
	podSpec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
	if err != nil {
		return nil, err
	}
	spec, err := sandboxapi.Suspended.Spec(run.Version)
	if err != nil {
		return nil, err
	}
	spec = maps.Clone(spec)
	spec["podTemplate"] = map[string]any{
		"metadata": map[string]any{"labels": texts(pod.Labels), "annotations": texts(pod.Annotations)},
		"spec":     podSpec,
	}
	spec["volumeClaimTemplates"] = []any{r.claimTemplate()}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": run.Version.APIVersion(),
		"kind":       sandboxapi.Kind,
		"metadata": map[string]any{
			"namespace": s.Namespace, "name": s.ObjectName,
			"labels": texts(r.labels(s)), "annotations": texts(r.annotations(s, run)),
		},
		"spec": spec,
	}}
	text, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it takes %d bytes, and at most %d can be stored", len(text), MaxBytes)
	}
	return object, nil
}

// claimTemplate is that of the workspace (contract 7.5). It may not change after the create (contract 8.2).
func (r *Renderer) claimTemplate() map[string]any {
	spec := map[string]any{
		"accessModes": []any{"ReadWriteOnce"},
		"resources":   map[string]any{"requests": map[string]any{"storage": r.storage.String()}},
	}
	if class := r.settings.WorkspaceStorageClass; class != "" {
		spec["storageClassName"] = class
	}
	return map[string]any{"metadata": map[string]any{"name": workspace.ClaimTemplate}, "spec": spec}
}

// labels are those by which every daemon finds the object (contract 4.3, 4.5).
func (r *Renderer) labels(s *request.Spec) map[string]string {
	return map[string]string{
		workspace.LabelManagedBy:        workspace.ManagedByOpenShell,
		workspace.LabelSandboxID:        s.ID,
		workspace.LabelSandboxName:      s.Name,
		workspace.LabelSandboxWorkspace: s.Workspace,
		workspace.LabelGatewayID:        r.settings.GatewayID,
	}
}

// annotations are the record of a create that has begun, and what is known of the request (contract 4.4).
func (r *Renderer) annotations(s *request.Spec, run *Run) map[string]string {
	annotations := runstate.Record{
		Bootstrapping: true, StartedAt: run.StartedAt.UnixMilli(), Operation: runstate.Create, Phase: runstate.Preparing,
		Generation: run.Generation, MainProcess: s.MainProcess, LogLevel: s.LogLevel,
	}.Annotations()
	annotations[workspace.AnnotationSandboxID] = s.ID
	annotations[workspace.AnnotationSandboxName] = s.Name
	annotations[workspace.AnnotationSandboxWorkspace] = s.Workspace
	annotations[workspace.AnnotationCallerDriverConfig] = workspace.False
	if s.CallerConfig {
		annotations[workspace.AnnotationCallerDriverConfig] = workspace.True
	}
	if run.Attachments != "" {
		annotations[workspace.AnnotationAdmissionIdentities] = run.Attachments
	}
	if traceParentRule.MatchString(run.TraceParent) {
		annotations[workspace.AnnotationTraceContext] = run.TraceParent
	}
	for _, key := range []string{workspace.AnnotationUIDRange, workspace.AnnotationSupplementalGroups} {
		if value := run.NamespaceAnnotations[key]; value != "" && printable(value) {
			annotations[key] = value
		}
	}
	return annotations
}

func texts(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for key, value := range in {
		out[key] = value
	}
	return out
}
