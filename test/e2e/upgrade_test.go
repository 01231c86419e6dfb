//go:build portcullis_long

package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/gateway/driver"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/images"
)

// formerRevision names the variable that says which commit or tag is upgraded from; the parent of HEAD without.
const formerRevision = "PORTCULLIS_UPGRADE_FROM"

// release is what an operator has of one: the manifests, and the names of the images on the node.
type release struct {
	tree  string
	names map[string]string
}

// present is the work tree.
func present(t *testing.T, c *cluster.Cluster) release {
	t.Helper()
	return release{tree: filepath.Join("..", ".."), names: loadShipped(t, c)}
}

// former is the commit before, built from its own sources.
func former(t *testing.T, c *cluster.Cluster) release {
	t.Helper()
	revision := cmp.Or(os.Getenv(formerRevision), "HEAD^")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	noError(t, err)
	sources, err := images.CheckOut(t.Context(), filepath.Join("..", ".."), revision, dir)
	if err != nil {
		t.Fatalf("%v (the variable %s names another)", err, formerRevision)
	}
	const digits = 12
	built, err := images.Build(t.Context(), images.Options{
		Root: sources.Root, Into: t.TempDir(), Stamp: sources.Stamp, Tag: "e2e-" + sources.Stamp.Commit[:digits], Raw: true,
		Platforms: []v1.Platform{{OS: "linux", Architecture: runtime.GOARCH}},
	})
	noError(t, err)
	r := release{tree: sources.Root, names: map[string]string{}}
	for _, image := range built {
		c.LoadArchive(t, image.Archive)
		r.names[image.Name] = strings.TrimPrefix(strings.TrimPrefix(image.Reference, "docker.io/"), "library/")
	}
	t.Logf("from %s, of %s", sources.Stamp.Commit, sources.Stamp.Time)
	return r
}

// An installation of the commit before, with sandboxes that it has made, is upgraded by applying the manifests and images of the work tree,
// and goes back in the same way. The daemons are replaced in no order while traffic goes on, so that each speaks with those of the other
// release. The gateway's Pod is replaced at last, by its operator: until then its relay is of the other release.
func TestOperatorLabelOverlayUpgrades(t *testing.T) {
	i := install(t, relayBeside)
	from, to := former(t, i.c), present(t, i.c)
	w := &town{installation: i, whole: t}
	w.apply(t, from) // all goes back before there is anything to lose
	w.replaceGateway(t)
	settle(t, w)
	for _, step := range []struct {
		what string
		to   release
	}{{"upgrade", to}, {"rollback", from}} {
		w.under(t, step.what, func(t *testing.T) {
			w.excuse(unproven) // NATS is replaced, too
			w.apply(t, step.to)
			w.awaitVisitors(t)
		})
		w.replaceGateway(t)
		w.awaitResident(t)
		w.under(t, "after the "+step.what, func(t *testing.T) { w.awaitVisitors(t) })
	}
	w.remove(t, w.stays)
	w.remove(t, w.closed)
}

// apply is what an operator does: the jobs of before are in the way of others (docs/upgrade.md), and all the rest is applied at once.
func (w *town) apply(t *testing.T, r release) {
	t.Helper()
	w.dropJobs(t)
	w.hold(t)
	w.deliver(t, r.tree, r.names)
	applied := w.rendered.Text
	w.whole.Cleanup(func() { w.c.Withdraw(w.whole, installed, applied) }) // one has what the other has not
	w.awaitReady(t)
	for _, object := range w.rendered.Objects {
		if name := object.GetName(); name != gatewaySet {
			w.awaitRolledOut(t, object.GetKind(), name)
		}
	}
	demandImages(t, w, r)
}

// gatewaySet is that of the gateway's StatefulSet.
const gatewaySet = "openshell"

// replaceGateway deletes the gateway's Pod and waits for the next one.
func (w *town) replaceGateway(t *testing.T) {
	t.Helper()
	former := w.podsOf(t, gatewaySet)
	noError(t, w.c.Client().CoreV1().Pods(installed).Delete(t.Context(), gatewayPod, metav1.DeleteOptions{}))
	w.awaitReplaced(t, gatewaySet, former)
	w.eventually(t, "its driver is reached again", func(ctx context.Context) error {
		_, err := w.driver.GetCapabilities(ctx, &computev1.GetCapabilitiesRequest{Gateway: driver.Gateway("1")}, grpc.WaitForReady(true))
		return err
	})
}

// awaitResident waits until the supervisor of the sandbox that may still be used has found the gateway again.
func (w *town) awaitResident(t *testing.T) {
	t.Helper()
	w.eventually(t, "the gateway has its sandbox again", func(context.Context) error {
		now, err := w.gateway.Get(w.stays.ID)
		if err == nil && now.Phase != phase.Ready {
			err = fmt.Errorf("it is %s", now.Phase)
		}
		return err
	})
}

// awaitRolledOut is `kubectl rollout status`, and then waits until no Pod of before is there.
func (w *town) awaitRolledOut(t *testing.T, kind, name string) {
	t.Helper()
	apps := w.c.Client().AppsV1()
	w.eventually(t, kind+" "+name+" is rolled out", func(ctx context.Context) error {
		switch kind {
		case "Deployment":
			d, err := apps.Deployments(installed).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s, n := d.Status, *d.Spec.Replicas; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != n || s.Replicas != n || s.AvailableReplicas != n || ending(s) {
				return fmt.Errorf("%+v: %s", s, unready(ctx, w.c))
			}
		case "StatefulSet":
			d, err := apps.StatefulSets(installed).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s, n := d.Status, *d.Spec.Replicas; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != n || s.AvailableReplicas != n || s.CurrentRevision != s.UpdateRevision {
				return fmt.Errorf("%+v: %s", s, unready(ctx, w.c))
			}
		}
		return nil
	})
}

// ending reports that Pods of before are still about.
func ending(s appsv1.DeploymentStatus) bool {
	return s.TerminatingReplicas != nil && *s.TerminatingReplicas > 0
}

// demandImages: what runs is of the release, so that the test did what it says.
func demandImages(t *testing.T, w *town, r release) {
	t.Helper()
	pods, err := w.c.Client().CoreV1().Pods(installed).List(t.Context(), metav1.ListOptions{})
	noError(t, err)
	found := map[string]bool{}
	for _, pod := range pods.Items {
		if pod.Name == gatewayPod {
			continue
		}
		for _, c := range pod.Spec.Containers {
			found[c.Image] = true
		}
	}
	for name, image := range r.names {
		if !found[image] {
			t.Errorf("no Pod has the image %s of %s: %v", image, name, found)
		}
	}
}
