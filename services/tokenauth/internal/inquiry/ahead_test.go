package inquiry_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// readsAhead is how many reads ahead of a subject were used, or unused.
func readsAhead(t *testing.T, f *fixture, subject, use string) float64 {
	t.Helper()
	return gathered(t, f, "portcullis_tokenauth_reads_ahead_total", subject, use)
}

// gathered is the value of a counter with these values of its labels.
func gathered(t *testing.T, f *fixture, name string, labels ...string) float64 {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var values []string
			for _, label := range m.GetLabel() {
				values = append(values, label.GetValue())
			}
			if slices.Equal(values, labels) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %v", name, labels)
	return 0
}

// TestReadsAheadRunBesideTheReview: the review is answered only when the Pod and the Sandbox were asked for.
func TestReadsAheadRunBesideTheReview(t *testing.T) {
	f := start(t, driverconf.ModeOperator)
	var boxes, spaces atomic.Bool
	mark := func(b *atomic.Bool) apitest.Fault {
		return func(http.ResponseWriter, *http.Request) bool { b.Store(true); return false }
	}
	f.On(apitest.Sandboxes, mark(&boxes))
	f.On(apitest.Namespaces, mark(&spaces))
	f.On(apitest.TokenReviews, func(_ http.ResponseWriter, r *http.Request) bool {
		for !boxes.Load() || !spaces.Load() {
			select {
			case <-r.Context().Done():
				return true
			case <-time.After(time.Millisecond):
			}
		}
		return false
	})
	grants(t, f.decide(t, f.world.Token), driverconf.ModeOperator)
}

// TestWhatWasReadForAnotherPodIsThrownAway: the claims name one Pod and the review another.
func TestWhatWasReadForAnotherPodIsThrownAway(t *testing.T) {
	f := start(t, driverconf.ModeShared)
	token := apitest.Token("sandboxes", "os-supervisor-other", "11111111-2222-4333-8444-555555555555")
	f.Change(func(w *apitest.World) { w.Token = token })
	grants(t, f.decide(t, token), driverconf.ModeShared)
	if f.Count("GET pods sandboxes/os-supervisor-other") != 1 || f.Count("GET pods sandboxes/"+apitest.PodName) != 1 {
		t.Errorf("asked for %v", f.Seen())
	}
	if got := readsAhead(t, f, "pod", "unused"); got != 1 {
		t.Errorf("%v reads ahead were not used", got)
	}
}

// TestARightNameWithAWrongUIDInTheClaims: what was read ahead is for the Pod of the claims, which is not the one of the review,
// although the names are the same.
func TestARightNameWithAWrongUIDInTheClaims(t *testing.T) {
	const other = "11111111-2222-4333-8444-555555555555"
	f := start(t, driverconf.ModeManaged)
	token := apitest.Token(apitest.NamespaceIn(f.mode), apitest.PodName, other)
	f.Change(func(w *apitest.World) { w.Token = token })
	grants(t, f.decide(t, token), f.mode)
	if f.Count("GET pods") != 2 || f.Count("GET namespaces") != 2 || f.Count("GET sandboxes") != 1 {
		t.Errorf("asked for %v", f.Seen())
	}
	for _, subject := range []string{"pod", "namespace", "sandbox"} {
		if n := readsAhead(t, f, subject, "used"); n != 0 {
			t.Errorf("%v reads ahead of the %s were used", n, subject)
		}
	}
	f.Change(func(w *apitest.World) { w.Pod.UID = other })
	refuses(t, f.decide(t, token), verdict.PodReplaced)
}

// TestWhatWasReadLongBeforeTheReviewEndedIsReadAgain: the review hangs, and meanwhile the Pod, the Sandbox or the namespace goes.
// The review says yes all the same, as the API server does for a Pod that is gone since a moment ago.
func TestWhatWasReadLongBeforeTheReviewEndedIsReadAgain(t *testing.T) {
	ended := metav1.NewTime(time.Unix(1, 0))
	for name, c := range map[string]struct {
		change func(*apitest.World)
		want   verdict.Reason
	}{
		"Pod":       {func(w *apitest.World) { w.Pod.DeletionTimestamp = &ended }, verdict.PodTerminating},
		"Sandbox":   {func(w *apitest.World) { w.Sandbox.DeletionTimestamp = &ended }, verdict.SandboxTerminating},
		"namespace": {func(w *apitest.World) { w.Namespace.DeletionTimestamp = &ended }, verdict.NamespaceTerminating},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, driverconf.ModeManaged)
			slow := &slowReview{Cluster: f.cluster, reads: make(chan struct{}, 3), change: func() { f.Change(c.change) }}
			f.through(t, slow)
			refuses(t, f.decide(t, f.world.Token), c.want)
			if n := readsAhead(t, f, "pod", "used"); n != 0 {
				t.Errorf("%v reads ahead of the Pod were used", n)
			}
		})
	}
}

// slowReview is a cluster whose review takes longer than a read ahead may be old, and during which something changes.
type slowReview struct {
	inquiry.Cluster

	reads  chan struct{}
	change func()
}

func (s *slowReview) Review(ctx context.Context, credential secret.Value, audience string) (*authenticationv1.TokenReviewStatus, error) {
	for range 3 {
		select {
		case <-s.reads:
		case <-time.After(patience):
			return nil, errors.New("not everything is read ahead")
		}
	}
	s.change()
	select {
	case <-time.After(inquiry.LongestLead + 200*time.Millisecond):
	case <-ctx.Done():
	}
	return s.Cluster.Review(ctx, credential, audience)
}

func (s *slowReview) Pod(ctx context.Context, namespace, name string) (*metav1.ObjectMeta, error) {
	defer s.done()
	return s.Cluster.Pod(ctx, namespace, name)
}

func (s *slowReview) Namespace(ctx context.Context, name string) (*metav1.ObjectMeta, error) {
	defer s.done()
	return s.Cluster.Namespace(ctx, name)
}

func (s *slowReview) Sandbox(ctx context.Context, version sandboxapi.Version, namespace, name string) (*sandboxapi.Sandbox, error) {
	defer s.done()
	return s.Cluster.Sandbox(ctx, version, namespace, name)
}

func (s *slowReview) done() {
	select {
	case s.reads <- struct{}{}:
	default:
	}
}

// TestWhatWasReadLongBeforeItIsAskedForIsReadAgain: here it is the read of the namespace that hangs, behind the review, and meanwhile
// the Pod or the Sandbox goes.
func TestWhatWasReadLongBeforeItIsAskedForIsReadAgain(t *testing.T) {
	ended := metav1.NewTime(time.Unix(1, 0))
	for name, c := range map[string]struct {
		change func(*apitest.World)
		want   verdict.Reason
	}{
		"Pod":     {func(w *apitest.World) { w.Pod.DeletionTimestamp = &ended }, verdict.PodTerminating},
		"Sandbox": {func(w *apitest.World) { w.Sandbox.DeletionTimestamp = &ended }, verdict.SandboxTerminating},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, driverconf.ModeManaged)
			f.through(t, &slowNamespace{slowReview{Cluster: f.cluster, reads: make(chan struct{}, 3), change: func() { f.Change(c.change) }}})
			refuses(t, f.decide(t, f.world.Token), c.want)
		})
	}
}

// slowNamespace is a cluster whose read of the namespace takes longer than a read ahead may be old; Pod and Sandbox are read before.
type slowNamespace struct{ slowReview }

func (s *slowNamespace) Review(ctx context.Context, credential secret.Value, audience string) (*authenticationv1.TokenReviewStatus, error) {
	return s.Cluster.Review(ctx, credential, audience)
}

func (s *slowNamespace) Namespace(ctx context.Context, name string) (*metav1.ObjectMeta, error) {
	for range 2 {
		select {
		case <-s.reads:
		case <-time.After(patience):
			return nil, errors.New("Pod and Sandbox are not read ahead")
		}
	}
	s.change()
	select {
	case <-time.After(inquiry.LongestLead + 200*time.Millisecond):
	case <-ctx.Done():
	}
	return s.Cluster.Namespace(ctx, name)
}

// faulty is a cluster whose first read of the Pod is not made.
type faulty struct {
	inquiry.Cluster

	pods  atomic.Int64
	first func() (*metav1.ObjectMeta, error)
}

func (f *faulty) Pod(ctx context.Context, namespace, name string) (*metav1.ObjectMeta, error) {
	if f.pods.Add(1) == 1 {
		return f.first()
	}
	return f.Cluster.Pod(ctx, namespace, name)
}

// TestAReadAheadThatWasHeldBackIsMadeWhenItIsAskedFor: our own rate limit is no answer of the cluster.
func TestAReadAheadThatWasHeldBackIsMadeWhenItIsAskedFor(t *testing.T) {
	f := start(t, driverconf.ModeShared)
	cluster := &faulty{Cluster: f.cluster, first: func() (*metav1.ObjectMeta, error) { return nil, kubeclient.ErrThrottled }}
	f.through(t, cluster)
	grants(t, f.decide(t, f.world.Token), f.mode)
	if cluster.pods.Load() != 2 || readsAhead(t, f, "pod", "unused") != 1 {
		t.Errorf("the Pod was asked for %d times", cluster.pods.Load())
	}
	// A second time is an answer, and one that says what it is.
	cluster = &faulty{Cluster: f.cluster, first: func() (*metav1.ObjectMeta, error) { return nil, errors.New("away") }}
	f.through(t, cluster)
	refuses(t, f.decide(t, f.world.Token), verdict.PodLookupFailed)
}

// TestAPanicBesideTheReviewComesOutWithItsStack: whoever called meets it, whether the read was asked for or not, and the value is
// not told.
func TestAPanicBesideTheReviewComesOutWithItsStack(t *testing.T) {
	for name, token := range map[string]string{"a token that is accepted": "", "a token that is refused": apitest.Token("another", "pod", "uid")} {
		t.Run(name, func(t *testing.T) {
			f := start(t, driverconf.ModeManaged)
			presented := f.world.Token
			if token != "" {
				f.Change(func(w *apitest.World) { w.Token = token })
			}
			cluster := &faulty{Cluster: f.cluster, first: func() (*metav1.ObjectMeta, error) { panic("at the credential " + presented) }}
			f.through(t, cluster)
			defer func() {
				p, ok := recover().(*inquiry.Panic)
				if !ok || p.Type != "string" || !strings.Contains(string(p.Stack), "faulty") || strings.Contains(p.Error()+string(p.Stack), presented) {
					t.Fatalf("%+v", p)
				}
				grants(t, f.decide(t, f.world.Token), f.mode) // what was there before is all given back
			}()
			f.decide(t, presented)
			t.Error("there was no panic")
		})
	}
}

// TestOnlySoManyReadAhead: the others are answered too, one thing after the other.
func TestOnlySoManyReadAhead(t *testing.T) {
	const more = 3
	f := start(t, driverconf.ModeShared)
	reached, let := make(chan struct{}, inquiry.MostAhead+more), make(chan struct{})
	f.On(apitest.TokenReviews, func(http.ResponseWriter, *http.Request) bool {
		reached <- struct{}{}
		<-let
		return false
	})
	var calls sync.WaitGroup
	for range inquiry.MostAhead + more {
		calls.Go(func() { grants(t, f.decide(t, f.world.Token), f.mode) })
	}
	for range inquiry.MostAhead + more {
		<-reached
	}
	close(let)
	calls.Wait()
	if used, unused := readsAhead(t, f, "pod", "used"), readsAhead(t, f, "pod", "unused"); used+unused != inquiry.MostAhead {
		t.Errorf("%v and %v read ahead", used, unused)
	}
	if n := gathered(t, f, "portcullis_tokenauth_reads_ahead_skipped_total"); n != more {
		t.Errorf("%v did not read ahead", n)
	}
	// Their places are free again.
	grants(t, f.decide(t, f.world.Token), f.mode)
	if n := gathered(t, f, "portcullis_tokenauth_reads_ahead_skipped_total"); n != more {
		t.Errorf("%v did not read ahead", n)
	}
}
