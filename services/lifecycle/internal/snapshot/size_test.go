package snapshot

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/fenceevidence"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// TestSizeInAList: all sandboxes are one answer, and a gateway whose gRPC library takes its default of 4 MiB gets one of some thousands. The
// documents say how many.
func TestSizeInAList(t *testing.T) {
	const uid = "4b67c0d0-1111-2222-3333-44444444444"
	record := runstate.Record{
		Generation: "g00000000000012ab", Readiness: runstate.Ready, WorkloadUID: uid + "1", SupervisorUID: uid + "2", FenceUID: uid + "3", FenceGeneration: 1,
	}
	var err error
	record.FenceEvidence, err = fenceevidence.Encode(fenceevidence.Evidence{
		Generation: record.Generation, Digest: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Claims: map[fenceevidence.Claim]string{
			fenceevidence.NamespaceUID: uid + "0", fenceevidence.SandboxUID: uid + "5", fenceevidence.WorkloadUID: record.WorkloadUID,
			fenceevidence.SupervisorUID: record.SupervisorUID, fenceevidence.PolicyUID: record.FenceUID, fenceevidence.PolicyVersion: "12345678",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	box := sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{
			Namespace: "openshell", Name: "team--box-0001", UID: uid + "5", Annotations: record.Annotations(),
			Labels: map[string]string{
				workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: "blue", workspace.LabelSandboxID: uid + "5",
				workspace.LabelSandboxName: "box-0001", workspace.LabelSandboxWorkspace: "team",
			},
		},
		Version: sandboxapi.V1beta1, Mode: sandboxapi.Running,
	}
	at := metav1.NewTime(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))
	box.Conditions = []sandboxapi.Condition{
		{Type: sandboxapi.ConditionReady, Status: "True", Reason: "DependenciesReady", Message: "Pod is Ready; Service Exists", Transition: at},
		{Type: sandboxapi.ConditionSuspended, Status: "False", Reason: "PodNotTerminated", Message: "the Sandbox is running", Transition: at},
	}
	box.Template.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(10001)), RunAsGroup: new(int64(10001))}
	s, err := Read(&box, scheme)
	if err != nil {
		t.Fatal(err)
	}
	told := Render(&s, Pods{})
	if status := told.GetStatus(); status.GetFenceEvidence() == nil || status.GetResolvedIdentity() == nil || len(status.GetConditions()) != 2 {
		t.Fatalf("it is not a sandbox that runs: %v", told)
	}
	const library, listed = 4 << 20, 5000
	size := proto.Size(&computev1.ListSandboxesResponse{Sandboxes: []*computev1.DriverSandbox{told}})
	t.Logf("one sandbox is %d bytes of a list, and %d KiB hold %d", size, library>>10, library/size)
	if size*listed > library {
		t.Errorf("a list of %d sandboxes that run takes %d KiB", listed, size*listed>>10)
	}
}
