//go:build portcullis_long

package e2e_test

import (
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

// formerRevision names the variable that says which commit or tag is upgraded from; without it, the newest in which what is installed differs
// from the work tree.
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
	revision := os.Getenv(formerRevision)
	if revision == "" {
		var err error
		revision, err = images.Former(t.Context(), filepath.Join("..", ".."), "services", "shared", "proto", "deploy")
		noError(t, err)
	}
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

// An installation of the commit before, with sandboxes that it has made, is upgraded to the manifests and images of the work tree, and goes back,
// by the words of docs/upgrade.md: forth with one daemon after the other, back at once, so that the daemons are replaced in either order and
// each speaks with those of the other release. Before, an upgrade whose images are nowhere is taken back. The gateway's Pod is replaced at last,
// by its operator: until then its relay is of the other release.
func TestOperatorLabelOverlayUpgrades(t *testing.T) {
	i := install(t, operatorLabel, relayBeside)
	from, to := former(t, i.c), present(t, i.c)
	w := &town{installation: i, whole: t, lanes: 1}
	w.settleOperator(t)
	forth, back := section(t, upgradeDocument, "## The upgrade"), section(t, upgradeDocument, "## Back")
	if len(forth) != 2 || len(back) != 2 {
		t.Fatalf("%s has %d and %d blocks of commands", upgradeDocument, len(forth), len(back))
	}
	atOnce, inOrder := forth[0].Text, forth[1].Text
	w.apply(t, from, atOnce) // all goes back before there is anything to lose
	w.replaceGateway(t)
	settle(t, w)
	w.under(t, "an upgrade that cannot be", func(t *testing.T) {
		w.excuseOutage(unproven) // NATS has no image either
		w.applyAbsent(t, to, from)
		w.apply(t, from, back[0].Text)
		w.awaitVisitors(t)
	})
	for _, step := range []struct {
		what, how string
		to        release
	}{{"upgrade", inOrder, to}, {"rollback", back[0].Text, from}} {
		w.under(t, step.what, func(t *testing.T) {
			w.excuse(unproven)
			w.apply(t, step.to, step.how)
			w.awaitVisitors(t)
		})
		w.replaceGateway(t)
		w.awaitResident(t)
		w.under(t, "after the "+step.what, func(t *testing.T) { w.awaitVisitors(t) })
	}
	w.remove(t, w.stays)
	w.remove(t, w.closed)
}

// upgradeDocument says how.
const upgradeDocument = "docs/upgrade.md"

// apply is what an operator does with a release: the commands of a block.
func (w *town) apply(t *testing.T, r release, how string) {
	t.Helper()
	w.hold(t)
	w.prepareRelease(t, r)
	if _, err := w.place(t, w.dir).Run(t.Context(), how); err != nil {
		t.Fatalf("%v: %s", err, unready(t.Context(), w.c))
	}
	awaitWorkloads(t, w.c, w.rendered)
	for _, object := range w.rendered.Objects {
		if name := object.GetName(); name != gatewaySet {
			w.awaitRolledOut(t, object.GetKind(), name)
		}
	}
	demandImages(t, w, r)
}

// prepareRelease writes the kustomization of a release, of which all is gone when the test has ended.
func (w *town) prepareRelease(t *testing.T, r release) {
	t.Helper()
	w.compose(t, r.tree, r.names)
	text := w.rendered.Text
	w.whole.Cleanup(func() { w.c.Withdraw(w.whole, installed, text) }) // one has what the other has not
}

// applyAbsent applies a release with names of images that are nowhere, and then the one before as if nothing were in the way: the Jobs, which
// wait for their images, are.
func (w *town) applyAbsent(t *testing.T, r, before release) {
	t.Helper()
	names := map[string]string{}
	for name, reference := range r.names {
		names[name] = reference + "-absent"
	}
	w.hold(t)
	w.prepareRelease(t, release{tree: r.tree, names: names})
	shell := w.place(t, w.dir)
	_, err := shell.Run(t.Context(), "kubectl delete job -n portcullis nats-bootstrap portcullis-provision --ignore-not-found\nkubectl apply -k .\n")
	noError(t, err)
	w.eventually(t, "a Job waits for its image", func(ctx context.Context) error {
		pods, err := w.c.Client().CoreV1().Pods(installed).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=portcullis-provision"})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			for _, c := range pod.Status.ContainerStatuses {
				if c.State.Waiting != nil && strings.Contains(c.State.Waiting.Reason, "ImagePull") {
					return nil
				}
			}
		}
		return fmt.Errorf("it does not: %s", unready(ctx, w.c))
	})
	w.prepareRelease(t, before)
	if out, err := shell.Run(t.Context(), "kubectl apply -k .\n"); err == nil || !strings.Contains(out, "field is immutable") {
		t.Errorf("an apply over Jobs that hang says %v\n%s", err, out)
	}
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
