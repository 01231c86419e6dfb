package lifecycle_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestNeighbours: two gateways of different ids have their sandboxes in one namespace. Neither sees the other's, by whichever call, nor touches
// them, though it is asked for their very names and ids; and each lives its life beside the other (contract 4.5).
func TestNeighbours(t *testing.T) {
	t.Parallel()
	with := standIns(t)
	first := with.Raise(t, "shared", nil)
	second := with.Raise(t, "shared", []string{mesh.Lifecycle, mesh.Supervisorctl}, func(o *mesh.Options) { o.SandboxNamespace = first.Shared })
	second.Shared = first.Shared
	told := follow(t, second)

	theirs := first.Wish("team", "wanted")
	made, err := first.Driver.CreateSandbox(first.Context(), &computev1.CreateSandboxRequest{Sandbox: theirs})
	must(t, err)
	first.AwaitReady(theirs.GetId())
	before := recorded(t, first, theirs)

	demandUnknown(t, second, theirs.GetId(), made.GetRuntimeIdentity())
	rival := second.Wish("team", "wanted")
	if _, err := second.Driver.CreateSandbox(second.Context(), &computev1.CreateSandboxRequest{Sandbox: rival}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a create of the name that the other has is answered %v", err)
	}
	demandUnknown(t, second, rival.GetId(), made.GetRuntimeIdentity())
	ours := second.Wish("team", "beside")
	_, err = second.Driver.CreateSandbox(second.Context(), &computev1.CreateSandboxRequest{Sandbox: ours})
	must(t, err)
	told.demand(t, "the second gateway's own is ready", func() bool { return told.ready[ours.GetId()] })
	told.demand(t, "of the other's nothing is told", func() bool { return len(told.said) == 1 && len(told.deleted) == 0 })
	demandListed(t, first, theirs.GetId())
	demandListed(t, second, ours.GetId())

	taken := second.Wish("team", "other")
	taken.Id = theirs.GetId()
	taken.Spec.LaunchAuthentication = second.Bundle(taken.GetId())
	if _, err := second.Driver.CreateSandbox(second.Context(), &computev1.CreateSandboxRequest{Sandbox: taken}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a create with the id of the other's sandbox is answered %v", err)
	}
	if after := recorded(t, first, theirs); !proto.Equal(before, after) {
		t.Errorf("the first gateway's sandbox was %v, and is %v", before, after)
	}
	demandKnown(t, first, theirs, made.GetRuntimeIdentity())

	_, err = first.Driver.DeleteSandbox(first.Context(), &computev1.DeleteSandboxRequest{SandboxId: theirs.GetId()})
	must(t, err)
	first.Eventually("nothing is left of the first one's", func() error {
		return nothingLeft(t.Context(), first, first.Shared, theirs.GetId(), theirs.GetName())
	})
	second.AwaitReady(ours.GetId())
	_, err = second.Driver.DeleteSandbox(second.Context(), &computev1.DeleteSandboxRequest{SandboxId: ours.GetId()})
	must(t, err)
	told.demand(t, "its end is told", func() bool { return told.deleted[ours.GetId()] == 1 })
	for daemon, gate := range second.Gates {
		for _, r := range gate.Requests(func(r lifecycle.Request) bool {
			return r.Resource == "sandboxes" && r.Name == "team--wanted" && r.Verb != "get"
		}) {
			t.Errorf("%s of the second gateway has asked to %s the first one's Sandbox", daemon, r.Verb)
		}
	}
}

// demandUnknown demands that a gateway knows nothing of a sandbox, and ends nothing.
func demandUnknown(t *testing.T, s *lifecycle.Site, id, identity string) {
	t.Helper()
	_, get := s.Driver.GetSandbox(s.Context(), &computev1.GetSandboxRequest{SandboxId: id})
	_, stop := s.Driver.StopSandbox(s.Context(), &computev1.StopSandboxRequest{SandboxId: id})
	_, start := s.Driver.StartSandbox(s.Context(), &computev1.StartSandboxRequest{
		SandboxId: id, GenerationId: "g0000000000000002", LaunchAuthentication: s.Bundle(id), ExpectedRuntimeIdentity: identity,
	})
	for call, err := range map[string]error{"get": get, "stop": stop, "start": start} {
		if status.Code(err) != codes.NotFound {
			t.Errorf("a %s of another gateway's sandbox is answered %v", call, err)
		}
	}
	gone, err := s.Driver.DeleteSandbox(s.Context(), &computev1.DeleteSandboxRequest{SandboxId: id})
	if err != nil || gone.GetDeleted() {
		t.Errorf("a delete of another gateway's sandbox is answered %v, %v", gone, err)
	}
	demandListed(t, s)
	namespace := s.Shared
	supervisor, err := s.Cluster.Client().CoreV1().Pods(namespace).Get(t.Context(), "os-supervisor-"+id, metav1.GetOptions{})
	if err != nil {
		return // it has none
	}
	token := s.Cluster.Token(t, namespace, supervisor.Spec.ServiceAccountName, cluster.TokenRequest{Audiences: []string{"openshell-gateway"}, Pod: supervisor})
	if got, err := s.Driver.AuthenticateSandbox(s.Context(), &computev1.AuthenticateSandboxRequest{Credential: token}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the supervisor of another gateway's sandbox is taken for %v, %v", got, err)
	}
}

// demandListed waits until a list has exactly these.
func demandListed(t *testing.T, s *lifecycle.Site, ids ...string) {
	t.Helper()
	cluster.Eventually(t, "the list is as it should be", func(ctx context.Context) error {
		list, err := s.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
		if err != nil {
			return err
		}
		for i, box := range list.GetSandboxes() {
			if i >= len(ids) || box.GetId() != ids[i] {
				return fmt.Errorf("it has %s", box.GetId())
			}
		}
		if len(list.GetSandboxes()) != len(ids) {
			return fmt.Errorf("it has %d sandboxes", len(list.GetSandboxes()))
		}
		return nil
	})
}

// recorded is what a driver says of a sandbox.
func recorded(t *testing.T, s *lifecycle.Site, wish *computev1.DriverSandbox) *computev1.DriverSandbox {
	t.Helper()
	got, err := s.Driver.GetSandbox(s.Context(), &computev1.GetSandboxRequest{SandboxId: wish.GetId()})
	must(t, err)
	return got.GetSandbox()
}
