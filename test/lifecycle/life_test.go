package lifecycle_test

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
)

// life is that of a sandbox, from the handshake to the end.
func life(t *testing.T, s *lifecycle.Site) { lifeIn(t, s, "team") }

func lifeIn(t *testing.T, s *lifecycle.Site, workspace string) {
	answered, err := s.Driver.GetCapabilities(s.Context(), &computev1.GetCapabilitiesRequest{Gateway: lifecycle.Gateway()})
	if err != nil || !answered.GetSupportsSandboxAuthentication() {
		t.Fatalf("capabilities %v, error %v", answered, err)
	}
	workspace = s.Workspace(workspace)
	s.Eventually("the workspace may be used", func() error {
		_, err := s.Driver.EnsureWorkspace(s.Context(), &computev1.EnsureWorkspaceRequest{Workspace: workspace})
		return err
	})
	wish := s.Wish(workspace, "box")
	confide(s, wish)
	if _, err := s.Driver.ValidateSandboxCreate(s.Context(), &computev1.ValidateSandboxCreateRequest{Sandbox: wish}); err != nil {
		t.Fatal(err)
	}
	made, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
	if err != nil {
		t.Fatal(err)
	}
	s.AwaitReady(wish.GetId())
	demandEvidence(t, s, wish)
	demandKnown(t, s, wish, made.GetRuntimeIdentity())
	if _, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a second create: %v", err)
	}
	if _, err := s.Driver.StopSandbox(s.Context(), &computev1.StopSandboxRequest{SandboxId: wish.GetId()}); err != nil {
		t.Fatal(err)
	}
	started, err := s.Driver.StartSandbox(s.Context(), &computev1.StartSandboxRequest{
		SandboxId: wish.GetId(), GenerationId: "g0000000000000001", LaunchAuthentication: s.Bundle(wish.GetId()),
		ExpectedRuntimeIdentity: made.GetRuntimeIdentity(),
	})
	if err != nil || started.GetRuntimeIdentity() == made.GetRuntimeIdentity() {
		t.Fatalf("started as %q, error %v", started.GetRuntimeIdentity(), err)
	}
	s.AwaitReady(wish.GetId())
	gone, err := s.Driver.DeleteSandbox(s.Context(), &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
	if err != nil || !gone.GetDeleted() {
		t.Fatalf("deleted %t, error %v", gone.GetDeleted(), err)
	}
	s.Eventually("the sandbox is gone", func() error {
		_, err := s.Driver.GetSandbox(s.Context(), &computev1.GetSandboxRequest{SandboxId: wish.GetId()})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return status.Error(codes.Unknown, "still there")
	})
	again, err := s.Driver.DeleteSandbox(s.Context(), &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
	if err != nil || again.GetDeleted() {
		t.Errorf("a second delete: %t, error %v", again.GetDeleted(), err)
	}
}

// confide puts into a wish what its user would not want to find in a log (contract 15.1).
func confide(s *lifecycle.Site, wish *computev1.DriverSandbox) {
	inEnvironment, inTemplate, word := rand.Text(), rand.Text(), rand.Text()
	wish.Spec.Environment = map[string]string{"DATABASE_URL": "postgres://agent:" + inEnvironment + "@db/agents"}
	wish.Spec.Template = &computev1.DriverSandboxTemplate{Environment: map[string]string{"API_KEY": inTemplate}}
	wish.Spec.Command = []string{"/bin/run", "--password", word}
	s.Guard("a value of the environment", inEnvironment)
	s.Guard("a value of the template's environment", inTemplate)
	s.Guard("a word of the command", word)
}

// demandKnown: the supervisor's own token is known to be of this sandbox and run (contract 2.13).
func demandKnown(t *testing.T, s *lifecycle.Site, wish *computev1.DriverSandbox, identity string) {
	t.Helper()
	namespace := s.NamespaceOf(wish.GetWorkspace())
	supervisor, err := s.Cluster.Client().CoreV1().Pods(namespace).Get(t.Context(), "os-supervisor-"+wish.GetId(), metav1.GetOptions{})
	must(t, err)
	token := s.Cluster.Token(t, namespace, supervisor.Spec.ServiceAccountName, cluster.TokenRequest{Audiences: []string{"openshell-gateway"}, Pod: supervisor})
	s.Guard("the supervisor's token", token)
	got, err := s.Driver.AuthenticateSandbox(s.Context(), &computev1.AuthenticateSandboxRequest{Credential: token})
	if err != nil || got.GetSandboxId() != wish.GetId() || got.GetRuntimeIdentity() != identity {
		t.Errorf("the supervisor of sandbox %s, run %s, is taken for %v, error %v", wish.GetId(), identity, got, err)
	}
}

// demandEvidence: what the driver says of the fence is what the Pods were given in their files (contract 7.14, 13.3).
func demandEvidence(t *testing.T, s *lifecycle.Site, wish *computev1.DriverSandbox) {
	t.Helper()
	got, err := s.Driver.GetSandbox(s.Context(), &computev1.GetSandboxRequest{SandboxId: wish.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := s.Cluster.Client().CoreV1().Secrets(s.NamespaceOf(wish.GetWorkspace())).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Claims map[string]string `json:"resource_claims"`
		Fence  struct {
			Generation string `json:"generation"`
			Digest     string `json:"evidence_digest"`
		} `json:"outer_fence"`
	}
	for i := range secrets.Items {
		if descriptor := secrets.Items[i].Data["runtime-descriptor.json"]; strings.Contains(string(descriptor), wish.GetId()) {
			if err := json.Unmarshal(descriptor, &file); err != nil {
				t.Fatal(err)
			}
		}
	}
	evidence := got.GetSandbox().GetStatus().GetFenceEvidence()
	if file.Fence.Digest == "" || evidence.GetEvidenceDigest() != file.Fence.Digest || evidence.GetGeneration() != file.Fence.Generation {
		t.Errorf("evidence %v, and the descriptor says %+v", evidence, file)
	}
	if !maps.Equal(evidence.GetResourceClaims(), file.Claims) {
		t.Errorf("claims %v, and the descriptor has %v", evidence.GetResourceClaims(), file.Claims)
	}
}
