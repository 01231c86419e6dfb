package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
)

// attachments: a claim that its owner has not offered to the workspace, or that is going, is refused before anything is made; one that was made
// anew under its name while the sandbox was stopped is refused to the run that follows (contract 11.5).
func attachments(t *testing.T, g *gated) {
	const workspace = "attached-to"
	for name, c := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		change func(*testing.T, *gated, string)
	}{
		"of-nobody":     {claim: offered("", nil)},
		"not-offered":   {claim: offered("", map[string]string{attachable: "false", attachableTo: workspace})},
		"for-another":   {claim: offered("", map[string]string{attachable: "true", attachableTo: "another"})},
		"that-is-going": {claim: offered("portcullis.test/kept", map[string]string{attachable: "true", attachableTo: workspace}), change: removeClaim},
		"not-there":     {},
	} {
		t.Run(name, func(t *testing.T) {
			if c.claim != nil {
				g.makeClaim(t, name, c.claim)
			}
			if c.change != nil {
				c.change(t, g, name)
			}
			wish := mounting(t, g.Site, workspace, name)
			_, err := g.Driver.CreateSandbox(g.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
			if status.Code(err) != codes.FailedPrecondition || !strings.Contains(status.Convert(err).Message(), name) {
				t.Errorf("a create is answered %v, want FAILED_PRECONDITION with the name of the claim", err)
			}
			must(t, nothingLeft(t.Context(), g.Site, g.Shared, wish.GetId(), "--"+wish.GetName()))
			for _, r := range g.gate.Requests(func(r lifecycle.Request) bool { return r.Verb == "create" && r.Mentions(wish.GetId()) }) {
				t.Errorf("it has asked to %s %s", r.Verb, r.Resource)
			}
		})
	}
	t.Run("made-anew", func(t *testing.T) { replaced(t, g, workspace) })
}

// replaced stops a sandbox and has its claim made anew.
func replaced(t *testing.T, g *gated, workspace string) {
	const name = "made-anew"
	labels := map[string]string{attachable: "true", attachableTo: workspace}
	g.makeClaim(t, name, offered("", labels))
	wish := mounting(t, g.Site, workspace, name)
	made, err := g.Driver.CreateSandbox(g.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
	must(t, err)
	stop := func() error {
		_, err := g.Driver.StopSandbox(g.Context(), &computev1.StopSandboxRequest{SandboxId: wish.GetId()})
		return err
	}
	start := func() error {
		_, err := g.Driver.StartSandbox(g.Context(), &computev1.StartSandboxRequest{
			SandboxId: wish.GetId(), GenerationId: "g0000000000000002", LaunchAuthentication: g.Bundle(wish.GetId()), ExpectedRuntimeIdentity: made.GetRuntimeIdentity(),
		})
		return err
	}
	must(t, stop())
	removeClaim(t, g, name)
	g.Eventually("the claim is gone", func() error {
		_, err := g.Cluster.Client().CoreV1().PersistentVolumeClaims(g.Shared).Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	if err := start(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a start without the claim is answered %v", err)
	}
	g.makeClaim(t, name, offered("", labels))
	if err := start(); status.Code(err) != codes.FailedPrecondition || !strings.Contains(status.Convert(err).Message(), name) {
		t.Errorf("a start with another claim of the name is answered %v, want FAILED_PRECONDITION with its name", err)
	}
	pods, err := objects(t.Context(), g.Site, g.Shared, kinds[1:2], func(o *metav1.ObjectMeta) bool {
		return o.Name == workspace+"--"+name || strings.Contains(o.Name, wish.GetId())
	})
	must(t, err)
	must(t, describe(pods))
	must(t, stop()) // it is what it was: stopped
	_, err = g.Driver.DeleteSandbox(g.Context(), &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
	must(t, err)
}

const (
	attachable   = "openshell.ai/sandbox-attachable"
	attachableTo = "openshell.ai/sandbox-attachable-workspace"
)

// offered is a claim with labels, and a finalizer where one is given.
func offered(finalizer string, labels map[string]string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}
	if finalizer != "" {
		claim.Finalizers = []string{finalizer}
	}
	return claim
}

// makeClaim makes a claim where the sandboxes are. Its finalizer goes with the test.
func (g *gated) makeClaim(t *testing.T, name string, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	claims := g.Cluster.Client().CoreV1().PersistentVolumeClaims(g.Shared)
	claim.Name = name
	_, err := claims.Create(t.Context(), claim, metav1.CreateOptions{})
	must(t, err)
	if len(claim.Finalizers) == 0 {
		return
	}
	t.Cleanup(func() {
		_, err := claims.Patch(context.WithoutCancel(t.Context()), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		must(t, err)
	})
}

func removeClaim(t *testing.T, g *gated, name string) {
	t.Helper()
	must(t, g.Cluster.Client().CoreV1().PersistentVolumeClaims(g.Shared).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// mounting is a wish for a sandbox with a claim of its own name.
func mounting(t *testing.T, s *lifecycle.Site, workspace, name string) *computev1.DriverSandbox {
	t.Helper()
	wish := s.Wish(workspace, name)
	config, err := structpb.NewStruct(map[string]any{
		"volumes":    []any{map[string]any{"name": "data", "persistent_volume_claim": map[string]any{"claim_name": name, "read_only": false}}},
		"containers": map[string]any{"agent": map[string]any{"volume_mounts": []any{map[string]any{"name": "data", "mount_path": "/data"}}}},
	})
	must(t, err)
	wish.Spec.Template = &computev1.DriverSandboxTemplate{DriverConfig: config}
	return wish
}
