//go:build portcullis_long

package demo_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestDaemonsGoOnWithNewTokens: when the API server takes their tokens no more, the daemons go on with those that the mesh puts in their
// place, without being started again. That is how an up stands for days.
func TestDaemonsGoOnWithNewTokens(t *testing.T) {
	c := cluster.StartPrivate(t).Cluster
	s := lifecycle.Raise(t, c, reconcile.Newest(), "shared")
	// That a sandbox is absent is said only after a look at the API server.
	absent := func() error {
		_, err := s.Driver.GetSandbox(s.Context(), &computev1.GetSandboxRequest{SandboxId: "absent"})
		if status.Code(err) != codes.NotFound {
			return fmt.Errorf("the driver answers %w", err)
		}
		return nil
	}
	s.Eventually("the driver answers", absent)
	accounts := c.Client().CoreV1().ServiceAccounts(s.Mesh.Namespace())
	for _, daemon := range mesh.Daemons() { // tokens are of an account's uid, rights of its name
		if err := accounts.Delete(t.Context(), daemon, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: daemon}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.Eventually("the tokens are of no use any more", func() error {
		if absent() == nil {
			return errors.New("they are")
		}
		return nil
	})
	var pids []int
	for _, p := range s.Mesh.Running() {
		pids = append(pids, p.PID())
	}
	if err := s.Mesh.RenewTokens(t.Context(), time.Now().Add(20*time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the driver answers again", absent)
	wish := s.Wish(s.Workspace("team"), "box")
	s.Eventually("a sandbox is made", func() error {
		_, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
		return err
	})
	s.AwaitReady(wish.GetId())
	for n, p := range s.Mesh.Running() {
		if p.PID() != pids[n] {
			t.Errorf("%s was started again", p.Name)
		}
	}
}
