package allowlist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// set up is an installation on the shared control plane, with a NATS server of its own and the bucket made.
func setUp(t *testing.T) (*installation.Installation, *natstest.Server) {
	t.Helper()
	server := natstest.Start(t)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), server.URL())
	i.Bootstrap(1)
	return i, server
}

func TestReplayW16AnswersFollowTheLabel(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	first, second, never := i.Labelled(), i.Labelled(), i.Cluster.Namespace(t)
	i.Nswatch().AwaitReady()
	r := i.Reader()
	r.AwaitAllowed(first)
	r.AwaitAllowed(second)
	r.AwaitRefused(never, verdict.NotListed)

	// The label is taken off and put on again: the namespace lives all the time.
	i.RemoveLabel(first)
	r.AwaitRefused(first, verdict.NotListed)
	i.SetLabel(first)
	r.AwaitAllowed(first)
	i.SetLabel(never)
	r.AwaitAllowed(never)
	if a := r.Check(second); !a.Allowed() {
		t.Errorf("a namespace that nobody touched is refused: %s", a.Reason)
	}
}

func TestDeletedNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	ns := i.Labelled()
	i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed(ns)
	i.Delete(ns)
	r.AwaitRefused(ns, verdict.NotListed)
}

func TestReplayW24TerminatingNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	ns, other := i.Labelled(), i.Labelled()
	i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed(ns)

	holdBack(t, i, ns)
	i.Delete(ns)
	r.AwaitRefused(ns, verdict.NotListed)
	now, err := i.Cluster.Client().CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	if err != nil || now.DeletionTimestamp == nil {
		t.Fatalf("the namespace is not Terminating: %v, %v", now, err)
	}
	r.AwaitAllowed(other)
}

// holdBack keeps the namespace Terminating after its deletion, by an object whose finalizer nobody serves.
func holdBack(t *testing.T, i *installation.Installation, namespace string) {
	t.Helper()
	i.Cluster.Apply(t, namespace, []byte(`
apiVersion: v1
kind: ConfigMap
metadata: {name: held, finalizers: [portcullis.test/hold]}
`))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), program.Limit)
		defer cancel()
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			_, err := i.Cluster.Client().CoreV1().ConfigMaps(namespace).Patch(ctx, "held",
				"application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			return err == nil || apierrors.IsNotFound(err), nil
		})
		if err != nil {
			t.Errorf("take the finalizer off: %v", err)
		}
	})
}

// A namespace that is made anew under an old name is another one: the uid tells.
func TestRecreatedNamespaceHasItsOwnUID(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	ns := i.Labelled()
	i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed(ns)
	before := r.Check(ns).UID
	if want := uid(t, i, ns); before != want {
		t.Fatalf("the answer's uid is %q, the namespace's is %q", before, want)
	}
	i.Delete(ns)
	r.AwaitRefused(ns, verdict.NotListed)
	i.Recreate(ns)
	r.AwaitAllowed(ns)
	if now, want := r.Check(ns).UID, uid(t, i, ns); now != want || now == before {
		t.Fatalf("the answer's uid is %q after %q, the namespace's is %q", now, before, want)
	}
}

func uid(t *testing.T, i *installation.Installation, namespace string) string {
	t.Helper()
	ns, err := i.Cluster.Client().CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(ns.UID)
}

func TestReservedNamespaceIsNeverAllowed(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	ns := i.Labelled()
	i.SetLabel(i.Namespace) // the mesh's own
	watcher := i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed(ns)
	r.AwaitRefused(i.Namespace, verdict.NotListed)
	watcher.AwaitMetric(1, "portcullis_nswatch_refused_total", `cause="reserved"`)
}

func TestEmptyListIsAnAnswer(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	i.Nswatch()
	r := i.Reader()
	r.AwaitRefused("anything", verdict.NotListed)
	cluster.Eventually(t, "the reader is ready", r.Ready)
}

func TestReplayJ14NoBucketAndAnEmptyOneAreUnsynced(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), server.URL())
	ns := i.Labelled()
	watcher := i.Nswatch()
	r := i.Reader()
	watcher.AwaitNotReady("bootstrap")
	cluster.Eventually(t, "the reader knows that there is no bucket", func(ctx context.Context) error {
		if err := r.Ready(ctx); !errors.Is(err, allowkv.ErrNoBucket) {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	r.AwaitRefused(ns, verdict.Unsynced)
	watcher.Stop()
	i.Bootstrap(1)
	empty := i.Reader()
	cluster.Eventually(t, "the reader knows that the bucket is empty", func(ctx context.Context) error {
		if err := empty.Ready(ctx); err == nil || errors.Is(err, allowkv.ErrNoBucket) || strings.Contains(err.Error(), "consumer") || strings.Contains(err.Error(), "does not run") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	empty.AwaitRefused(ns, verdict.Unsynced)
	i.Nswatch().AwaitReady()
	r.AwaitAllowed(ns)
	empty.AwaitAllowed(ns)
}

// Whatever the readers have received by now: for one epoch and revision all of them say the same.
func TestManyReadersAgree(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	changing, kept := i.Labelled(), i.Labelled()
	i.Nswatch()
	var readers []*installation.Reader
	for range 5 {
		readers = append(readers, i.Reader())
	}
	for _, r := range readers {
		r.AwaitAllowed(changing)
	}
	said := map[[2]uint64]bool{}
	look := func() {
		for n, r := range readers {
			a := r.Check(changing)
			if a.Reason != "" && a.Reason != verdict.NotListed {
				continue
			}
			at := [2]uint64{a.Epoch, a.Revision}
			if before, known := said[at]; known && before != a.Allowed() {
				t.Fatalf("reader %d says %t about epoch %d, revision %d, another said %t", n, a.Allowed(), a.Epoch, a.Revision, before)
			}
			said[at] = a.Allowed()
		}
	}
	for n := range 6 {
		if n%2 == 0 {
			i.RemoveLabel(changing)
		} else {
			i.SetLabel(changing)
		}
		cluster.Eventually(t, "all readers have followed", func(context.Context) error {
			look()
			for _, r := range readers {
				if r.Check(changing).Allowed() != (n%2 == 1) {
					return errors.New("not yet")
				}
			}
			return nil
		})
	}
	if len(said) < 6 {
		t.Errorf("only %d lists were compared", len(said))
	}
	for _, r := range readers {
		r.AwaitAllowed(kept)
	}
}
