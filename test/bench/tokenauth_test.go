package bench_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// crowd is how many the daemon lets call at once by default.
	crowd = 128
	// firsts is how many bearers each way has that call for the first time.
	firsts = 240
	// calls is how many each way makes one after another, after warmUp that do not count; farCalls with the distance.
	calls    = 1000
	farCalls = 300
	// loadTime is for how long callers call at once, loadTurns times; once with the distance.
	loadTime  = 5 * time.Second
	loadTurns = 2
	// distance is how far away the API server is put, each way.
	distance = 2 * time.Millisecond
)

// way is one way to find out who a bearer is.
type way struct {
	name string
	// bearers that are asked about again and again, and those that are fresh to this way.
	bearers, fresh []*tokenauth.Bearer
	ask            func(context.Context, *tokenauth.Bearer) error

	first, alone []time.Duration
	many, single rate // calls under load: a bearer for each caller, one for all
}

// rate is how much was done in some time.
type rate struct {
	done atomic.Int64
	took time.Duration
}

func (r *rate) perSecond() float64 { return float64(r.done.Load()) / r.took.Seconds() }

// BenchmarkTokenauth runs once, whatever b.N is, and prints its tables. In operator mode, with a thousand namespaces, an Authenticate
// reads the Namespace, too, which the sequence does not; in shared mode it reads what the sequence reads. The daemons publish their
// audit events as they are installed to.
func BenchmarkTokenauth(b *testing.B) {
	private := cluster.StartPrivate(b)
	server := natstest.Start(b)
	i := installation.New(b, private.Cluster, server.URL())
	i.Bootstrap(1)
	operator, shared := tokenauth.Operator(b, i), tokenauth.Shared(b, private.Cluster)
	operator.Audit()
	shared.Audit(server.URL())
	private.Controllers().Kill() // it would furnish the namespaces while we measure
	f := &field{b: b, i: i, server: server}
	f.grow(1000)
	i.Nswatch().AwaitReady()

	near := f.ways(operator, shared)
	for n := range firsts {
		for k, w := range near.ways {
			w.fresh = append(w.fresh, near.sites[k].Bearer(near.namespace(k, callers+n)))
		}
	}
	rested := f.resident(near.listed.Resident())
	f.firstCalls(near.ways)
	f.takeTurns(near.ways, calls)
	stop := f.watchResident(near.listed.PID())
	f.underLoad(near.ways, loadTurns)
	most := stop()
	crowded, mostCrowded := f.crowd(near)
	closed := f.closeGate(near.ways[listedWay])
	near.stop()

	relay := startRelay(b, installation.Address(private.RESTConfig()), distance)
	for _, s := range []*tokenauth.Site{operator, shared} {
		s.Via("https://"+relay.address(), nil)
	}
	far := f.ways(operator, shared)
	for k, w := range far.ways {
		w.fresh = near.ways[k].fresh // to these daemons they are, and the API server has forgotten them
	}
	f.firstCalls(far.ways)
	f.takeTurns(far.ways, farCalls)
	f.underLoad(far.ways, 1)
	far.stop()

	show(b, "near", tokenTable(near.ways))
	show(b, "far", fmt.Sprintf("With %s more to the API server, each way:\n\n%s", distance, tokenTable(far.ways)))
	show(b, "gate", fmt.Sprintf("Label removed to first refused Authenticate, p50 / p99 of %d: %.2f / %.2f ms.",
		changes, ms(quantile(closed, 0.5)), ms(quantile(closed, 0.99))))
	show(b, "memory", fmt.Sprintf("Resident in operator mode, at rest / most with %d callers / most with %d callers: %.1f / %.1f / %.1f MiB; %.0f/s with %d callers.",
		callers, crowd, mib(rested), mib(most), mib(mostCrowded), crowded.perSecond(), crowd))
}

// show prints under a name of its own: what one benchmark prints beyond ten lines is cut off.
func show(b *testing.B, name, text string) {
	b.Run(name, func(b *testing.B) { b.Log("\n" + text) })
}

// contest is all ways to one API server, with the sites of their bearers and the daemons.
type contest struct {
	f              *field
	ways           []*way
	sites          []*tokenauth.Site
	listed, shared *program.Process
}

// listedWay is the index of operator mode among the ways.
const listedWay = 2

// ways starts a daemon in each mode, and has every way know its bearers.
func (f *field) ways(operator, shared *tokenauth.Site) *contest {
	f.b.Helper()
	c := &contest{f: f, sites: []*tokenauth.Site{operator, operator, operator, shared}}
	listed, p := f.authenticate(operator)
	alike, q := f.authenticate(shared)
	listed.name, alike.name = "Authenticate, operator mode", "Authenticate, shared mode"
	c.listed, c.shared = p, q
	for n := range callers {
		listed.bearers = append(listed.bearers, operator.Bearer(f.names[n]))
		alike.bearers = append(alike.bearers, shared.Bearer(shared.Namespace))
		f.await(listed, listed.bearers[n], true)
		f.await(alike, alike.bearers[n], true)
	}
	c.ways = []*way{
		{name: "bare TokenReview", bearers: listed.bearers, ask: f.review(operator)},
		{name: "TokenReview, Pod, Sandbox", bearers: listed.bearers, ask: f.sequence(operator)},
		listed, alike,
	}
	return c
}

// namespace is where the nth bearer of a way lives.
func (c *contest) namespace(way, n int) string {
	if c.sites[way] == c.sites[listedWay] {
		return c.f.names[n]
	}
	return c.sites[way].Namespace
}

func (c *contest) stop() { c.f.b.Helper(); c.listed.Stop(); c.shared.Stop() }

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

// firstCalls makes the first call of each fresh bearer: nothing of what it asks for was asked before.
func (f *field) firstCalls(ways []*way) {
	f.b.Helper()
	for n := range firsts {
		for k := range ways {
			w := ways[(n+k)%len(ways)]
			w.first = append(w.first, f.timed(w, w.fresh[n]))
		}
	}
}

// takeTurns makes one call of each way after the other, so that whatever else goes on goes on for all of them.
func (f *field) takeTurns(ways []*way, calls int) {
	f.b.Helper()
	for n := range warmUp + calls {
		for k := range ways {
			w := ways[(n+k)%len(ways)]
			if took := f.timed(w, w.bearers[n%len(w.bearers)]); n >= warmUp {
				w.alone = append(w.alone, took)
			}
		}
	}
}

func (f *field) timed(w *way, bearer *tokenauth.Bearer) time.Duration {
	f.b.Helper()
	start := monotonic(f.b)
	if err := w.ask(f.b.Context(), bearer); err != nil {
		f.b.Fatalf("%s: %v", w.name, err)
	}
	return monotonic(f.b) - start
}

// underLoad has all callers call, each way after the other.
func (f *field) underLoad(ways []*way, turns int) {
	f.b.Helper()
	for range turns {
		for _, w := range ways {
			f.callAtOnce(w, &w.many, callers, w.bearers)
			f.callAtOnce(w, &w.single, callers, w.bearers[:1])
		}
	}
}

// crowd has as many call in operator mode as may, with a token each, and says the most memory that it took.
func (f *field) crowd(c *contest) (r *rate, most int64) {
	f.b.Helper()
	w := c.ways[listedWay]
	bearers := append(slices.Clone(w.bearers), w.fresh...)
	r = &rate{}
	stop := f.watchResident(c.listed.PID())
	for range loadTurns {
		f.callAtOnce(w, r, crowd, bearers)
	}
	return r, stop()
}

// callAtOnce adds what so many callers get done in loadTime; each has a bearer of its own if there are enough.
func (f *field) callAtOnce(w *way, r *rate, count int, bearers []*tokenauth.Bearer) {
	f.b.Helper()
	var running sync.WaitGroup
	start := time.Now()
	for n := range count {
		running.Go(func() {
			for time.Since(start) < loadTime {
				if err := w.ask(f.b.Context(), bearers[n%len(bearers)]); err != nil {
					f.b.Errorf("%s: %v", w.name, err)
					return
				}
				r.done.Add(1)
			}
		})
	}
	running.Wait()
	r.took += time.Since(start)
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

func tokenTable(ways []*way) string {
	var b strings.Builder
	review, plain := ways[0], ways[1]
	fmt.Fprintf(&b, "| | first call of a bearer, p50 / p99 | p50 / that of the sequence | later calls, p50 / p99, one at a time | p50 / that of the TokenReview | p50 / that of the sequence | %d callers with %d tokens | to the sequence | %d callers with one token | to the sequence |\n",
		callers, callers, callers)
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, w := range ways {
		first, p50 := ms(quantile(w.first, 0.5)), ms(quantile(w.alone, 0.5))
		fmt.Fprintf(&b, "| %s | %.2f / %.2f ms | %.2f | %.2f / %.2f ms | %.2f | %.2f | %.0f/s | %.2f | %.0f/s | %.2f |\n", w.name,
			first, ms(quantile(w.first, 0.99)), first/ms(quantile(plain.first, 0.5)),
			p50, ms(quantile(w.alone, 0.99)), p50/ms(quantile(review.alone, 0.5)), p50/ms(quantile(plain.alone, 0.5)),
			w.many.perSecond(), w.many.perSecond()/plain.many.perSecond(), w.single.perSecond(), w.single.perSecond()/plain.single.perSecond())
	}
	return strings.TrimSuffix(b.String(), "\n")
}
