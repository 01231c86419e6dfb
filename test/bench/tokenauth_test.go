package bench_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

const (
	// callers is how many call at once, each with a bearer of its own.
	callers = 16
	// calls is how many each way makes one after another, after warmUp that do not count.
	calls = 1000
	// loadTime is for how long callers call at once, loadTurns times.
	loadTime  = 5 * time.Second
	loadTurns = 2
)

// way is one way to find out who a bearer is.
type way struct {
	name    string
	bearers []*tokenauth.Bearer
	ask     func(context.Context, *tokenauth.Bearer) error

	alone        []time.Duration
	many, single atomic.Int64 // calls under load: a bearer for each caller, one for all
}

// perSecond is a rate under load.
func perSecond(n int64) float64 { return float64(n) / (loadTurns * loadTime).Seconds() }

// BenchmarkTokenauth runs once, whatever b.N is, and prints its tables. In operator mode, with a thousand namespaces, an Authenticate
// reads the Namespace, too, which the sequence does not; in shared mode it reads what the sequence reads.
func BenchmarkTokenauth(b *testing.B) {
	private := cluster.StartPrivate(b)
	server := natstest.Start(b)
	i := installation.New(b, private.Cluster, server.URL())
	i.Bootstrap(1)
	operator, shared := tokenauth.Operator(b, i), tokenauth.Shared(b, private.Cluster)
	private.Controllers().Kill() // it would furnish the namespaces while we measure
	f := &field{b: b, i: i, server: server}
	f.grow(1000)
	i.Nswatch().AwaitReady()
	listed, p := f.authenticate(operator)
	alike, _ := f.authenticate(shared)
	for n := range callers {
		listed.bearers = append(listed.bearers, operator.Bearer(f.names[n]))
		alike.bearers = append(alike.bearers, shared.Bearer(shared.Namespace))
	}
	for n := range callers {
		f.await(listed, listed.bearers[n], true)
		f.await(alike, alike.bearers[n], true)
	}
	rested := f.resident(p.Resident())

	ways := []*way{
		{name: "bare TokenReview", bearers: listed.bearers, ask: f.review(operator)},
		{name: "TokenReview, Pod, Sandbox", bearers: listed.bearers, ask: f.sequence(operator)},
		listed, alike,
	}
	listed.name, alike.name = "Authenticate, operator mode", "Authenticate, shared mode"
	f.takeTurns(ways)
	stop := f.watchResident(p.PID())
	for range loadTurns {
		for _, w := range ways {
			f.callAtOnce(w, &w.many, w.bearers)
			f.callAtOnce(w, &w.single, w.bearers[:1])
		}
	}
	most := stop()
	closed := f.closeGate(listed)
	b.Log("\n" + tokenTable(ways, closed, rested, most))
}

// authenticate starts a tokenauth that logs as it does when it is installed, and asks it over the mesh.
func (f *field) authenticate(s *tokenauth.Site) (*way, *program.Process) {
	f.b.Helper()
	s.LogLevel = "info"
	p := s.Start()
	p.AwaitReady()
	c := s.Client(p)
	return &way{ask: func(ctx context.Context, bearer *tokenauth.Bearer) error {
		_, err := c.Authenticate(ctx, bearer.Token)
		return err
	}}, p
}

// review is what nobody can do without.
func (f *field) review(s *tokenauth.Site) func(context.Context, *tokenauth.Bearer) error {
	f.b.Helper()
	client := f.clientOf(s)
	return func(ctx context.Context, bearer *tokenauth.Bearer) error { return reviewed(ctx, client, bearer) }
}

func (f *field) clientOf(s *tokenauth.Site) *kubernetes.Clientset {
	f.b.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		f.b.Fatal(err)
	}
	return client
}

func reviewed(ctx context.Context, client kubernetes.Interface, bearer *tokenauth.Bearer) error {
	review, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: bearer.Token, Audiences: []string{"openshell-gateway"}},
	}, metav1.CreateOptions{})
	if err == nil && !review.Status.Authenticated {
		err = errors.New("not authenticated")
	}
	return err
}

// sequence is what a driver does that asks one question after another.
func (f *field) sequence(s *tokenauth.Site) func(context.Context, *tokenauth.Bearer) error {
	f.b.Helper()
	client := f.clientOf(s)
	objects, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		f.b.Fatal(err)
	}
	return func(ctx context.Context, bearer *tokenauth.Bearer) error {
		if err := reviewed(ctx, client, bearer); err != nil {
			return err
		}
		pod, err := client.CoreV1().Pods(bearer.Pod.Namespace).Get(ctx, bearer.Pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = objects.Resource(sandboxapi.V1beta1.GroupVersionResource()).Namespace(pod.Namespace).
			Get(ctx, pod.OwnerReferences[0].Name, metav1.GetOptions{})
		return err
	}
}

// takeTurns makes one call of each way after the other, so that whatever else goes on goes on for all of them.
func (f *field) takeTurns(ways []*way) {
	f.b.Helper()
	for n := range warmUp + calls {
		for k := range ways {
			w := ways[(n+k)%len(ways)]
			start := monotonic(f.b)
			if err := w.ask(f.b.Context(), w.bearers[n%len(w.bearers)]); err != nil {
				f.b.Fatalf("%s: %v", w.name, err)
			}
			if took := monotonic(f.b) - start; n >= warmUp {
				w.alone = append(w.alone, took)
			}
		}
	}
}

// callAtOnce adds to count what all callers get done in loadTime; each has a bearer of its own if there are enough.
func (f *field) callAtOnce(w *way, count *atomic.Int64, bearers []*tokenauth.Bearer) {
	f.b.Helper()
	var running sync.WaitGroup
	end := time.Now().Add(loadTime)
	for n := range callers {
		running.Go(func() {
			for time.Now().Before(end) {
				if err := w.ask(f.b.Context(), bearers[n%len(bearers)]); err != nil {
					f.b.Errorf("%s: %v", w.name, err)
					return
				}
				count.Add(1)
			}
		})
	}
	running.Wait()
}

// watchResident looks at the memory of a process until it is told to stop, and then says the most that it saw. Bytes.
func (f *field) watchResident(pid int) (stop func() int64) {
	var most int64
	ctx, cancel := context.WithCancel(f.b.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			bytes, err := resident(pid)
			if err != nil {
				f.b.Error(err)
				return
			}
			most = max(most, bytes)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() int64 { cancel(); watching.Wait(); return most }
}

// closeGate takes the label off a bearer's namespace and on again, over and over, and measures from the request for it to the end
// of the first call that is refused, with one call after another.
func (f *field) closeGate(w *way) (closed []time.Duration) {
	f.b.Helper()
	for n := range warmUp + changes {
		bearer := w.bearers[n%len(w.bearers)]
		start := f.label(bearer.Pod.Namespace, false)
		at := f.await(w, bearer, false)
		closed = append(closed, at-start)
		f.label(bearer.Pod.Namespace, true)
		f.await(w, bearer, true)
	}
	return closed[warmUp:]
}

// await calls until the answer is the wanted one, and says when it came.
func (f *field) await(w *way, bearer *tokenauth.Bearer, want bool) time.Duration {
	f.b.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		err := w.ask(f.b.Context(), bearer)
		at := monotonic(f.b)
		decision, _ := verdict.FromError(err)
		// A namespace that was added is Behind from the list to the beat that proves it.
		if err != nil && decision.Reason != verdict.NotListed && (!want || decision.Reason != verdict.Behind) {
			f.b.Fatalf("Authenticate: %v (%s)", err, decision.Explain())
		}
		if (err == nil) == want {
			return at
		}
	}
	f.b.Fatalf("no bearer of namespace %s is granted=%t", bearer.Pod.Namespace, want)
	return 0
}

func tokenTable(ways []*way, closed []time.Duration, rested, most int64) string {
	var b strings.Builder
	review, plain := ways[0], ways[1]
	fmt.Fprintf(&b, "| | p50 / p99, one call at a time | p50 / that of the TokenReview | p50 / that of the sequence | %d callers with %d tokens | to the sequence | %d callers with one token | to the sequence |\n",
		callers, callers, callers)
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, w := range ways {
		p50 := ms(quantile(w.alone, 0.5))
		many, single := w.many.Load(), w.single.Load()
		fmt.Fprintf(&b, "| %s | %.2f / %.2f ms | %.2f | %.2f | %.0f/s | %.2f | %.0f/s | %.2f |\n", w.name, p50, ms(quantile(w.alone, 0.99)),
			p50/ms(quantile(review.alone, 0.5)), p50/ms(quantile(plain.alone, 0.5)),
			perSecond(many), float64(many)/float64(plain.many.Load()), perSecond(single), float64(single)/float64(plain.single.Load()))
	}
	// What is longer than ten lines is cut off by go test.
	fmt.Fprintf(&b, "\nLabel removed to first refused Authenticate, p50 / p99 of %d: %.2f / %.2f ms. Resident in operator mode, at rest / most under load: %.1f / %.1f MiB.",
		changes, ms(quantile(closed, 0.5)), ms(quantile(closed, 0.99)), mib(rested), mib(most))
	return b.String()
}
