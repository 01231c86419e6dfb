//go:build portcullis_long

package supervisor_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

var only = flag.String("only", "", "crash only at writes whose path has this in it, such as /secrets")

// crash is one operation that the daemon dies in.
type crash struct {
	// prepare brings a Box to where the operation begins; nil when it is there.
	prepare func(context.Context, *supervisor.Client, *supervisor.Box) error
	// call is the operation; the same again gets the same run.
	call func(context.Context, *supervisor.Client, *supervisor.Box) error
	// done says what is wrong after the operation was completed.
	done func(context.Context, *supervisor.Site, *supervisor.Box) error
	// secrets is how many Secrets the namespace takes; 0 for as many as there are.
	secrets int64
}

// third is the run that follows, and other the same of another generation.
func third(b *supervisor.Box) supervisor.Run {
	return supervisor.Run{Generation: b.Run.Generation, Session: strings.Replace(b.Run.Session, b.Run.Session[:8], "00000003", 1), Epoch: 3}
}

func other(b *supervisor.Box) supervisor.Run {
	run := third(b)
	run.Generation = "h" + run.Generation[1:]
	return run
}

// crashes are the operations, with a restart for a run over one that stands.
func crashes(next func(*supervisor.Box) supervisor.Run) map[string]crash {
	return map[string]crash{
		"provision": {call: provisioned, done: stands(func(b *supervisor.Box) supervisor.Run { return b.Run })},
		"restart":   {prepare: each(provisioned, released, restarted(second)), call: restarted(next), done: stands(next)},
		"release":   {prepare: provisioned, call: released, done: stopped},
		"remove":    {prepare: provisioned, call: takenAway, done: bare},
		"undo":      {call: refused, done: stopped, secrets: 1},
	}
}

func takenAway(ctx context.Context, c *supervisor.Client, b *supervisor.Box) error {
	_, err := c.Remove(ctx, b, supervisor.Run{})
	return err
}

// refused is a start of which the cluster takes one Secret and not the second, so that all that was made is taken away again.
func refused(ctx context.Context, c *supervisor.Client, b *supervisor.Box) error {
	_, err := c.Provision(ctx, b, b.Run)
	if decision, _ := verdict.FromError(err); decision.Reason == verdict.CompanionRefused {
		return nil
	}
	return cmp.Or(err, errors.New("a start is granted that the cluster refuses"))
}

// bare says what is left of a set.
func bare(ctx context.Context, s *supervisor.Site, b *supervisor.Box) error {
	now, err := s.History.Look(ctx, b.Namespace)
	if err != nil {
		return err
	}
	if left := now.Companions(); len(left) > 0 {
		return fmt.Errorf("after a removal there is %v", left)
	}
	return settled(ctx, s, b)
}

// One process works on every operation for many sandboxes, each held at another write before the API server does it. Then the process
// is killed, so that each sandbox is left where a crash at exactly that point leaves it. The same call to another process completes it,
// or finds that the loop has undone it, while the write that was held comes late, as from a network that held it.
//
// A sandbox before a write is as one after the write before, so between this test and the one below no point is left out.
func TestCallAfterCrash(t *testing.T) {
	t.Parallel()
	for name, of := range dialects {
		t.Run(name, func(t *testing.T) {
			c, dialect := of(t)
			callAfterCrash(t, supervisor.New(t, c, dialect))
		})
	}
}

func callAfterCrash(t *testing.T, s *supervisor.Site) {
	t.Helper()
	operations := crashes(third)
	boxes := crashed(t, s, operations, false)
	client := s.Client(s.Start())
	ctx, cancel := context.WithTimeout(t.Context(), recovery)
	defer cancel()
	defer tellTimes(t, boxes)
	began := time.Now()
	all(boxes, func(p *point) error {
		defer func() { p.took = time.Since(began) }()
		c := operations[p.operation]
		calls := 0
		err := supervisor.Insist(ctx, func(ctx context.Context) error {
			if calls++; calls == 2 {
				p.hold.Deliver()
			}
			return c.call(ctx, client, p.box)
		})
		switch decision, _ := verdict.FromError(err); {
		case p.operation == "provision" && decision.Reason == verdict.RunIsAnother:
			return supervisor.Await(ctx, func() error { return stopped(ctx, s, p.box) }) // the loop undoes a start that nobody was at
		case p.operation == "undo" && (err == nil || decision.Reason == verdict.RunIsAnother):
			return supervisor.Await(ctx, func() error { return stopped(ctx, s, p.box) }) // the loop goes on with what is being taken away
		case decision.Reason == verdict.CompanionCollision && p.leavesSecrets():
			return supervisor.Await(ctx, func() error { return stopped(ctx, s, p.box) }) // nobody knows whose they are, so the start is undone
		}
		if err != nil {
			return err
		}
		return c.done(ctx, s, p.box)
	}, func(p *point, err error) { t.Errorf("crashed at %s: %v", p, err) })
}

// recovery ends the wait for what will never come: what a call waits for another one that may be at work, and more.
const recovery = 3 * time.Minute

// point is where a process died, and the sandbox that it left.
type point struct {
	operation string
	number    int
	after     bool
	hold      *supervisor.Hold
	box       *supervisor.Box
	// took is how long the sandbox needed to settle from when the next process was ready.
	took time.Duration
}

// leavesSecrets reports whether the process may have made a Secret, without a record of it, and died before the supervisor was let go.
func (p *point) leavesSecrets() bool {
	path := p.hold.Held().Path
	return strings.HasSuffix(path, "/secrets") || strings.HasSuffix(path, "/pods/"+p.box.SupervisorName())
}

// tellTimes logs how long each point needed, the slowest first, and the distribution.
func tellTimes(t *testing.T, points []*point) {
	t.Helper()
	sorted := slices.SortedFunc(slices.Values(points), func(a, b *point) int { return cmp.Compare(b.took, a.took) })
	for _, p := range sorted {
		t.Logf("settled after %6.1fs: crashed at %s", p.took.Seconds(), p)
	}
	if n := len(sorted); n > 0 {
		t.Logf("settle time of %d points: maximum %.1fs, 90th percentile %.1fs, median %.1fs",
			n, sorted[0].took.Seconds(), sorted[n/10].took.Seconds(), sorted[n/2].took.Seconds())
	}
}

func (p *point) String() string {
	side := "before"
	if p.after {
		side = "after"
	}
	text := fmt.Sprintf("%s, %s write %d", p.operation, side, p.number)
	if p.hold != nil {
		text += fmt.Sprintf(", %s %s", p.hold.Held().Method, p.hold.Held().Path)
	}
	return text
}

// all does the same at all points at once, and says afterwards where it failed.
func all(points []*point, do func(*point) error, failed func(*point, error)) {
	var running sync.WaitGroup
	errs := make([]error, len(points))
	for i, p := range points {
		running.Go(func() { errs[i] = do(p) })
	}
	running.Wait()
	for i, err := range errs {
		if err != nil {
			failed(points[i], err)
		}
	}
}

// crashed leaves a sandbox at every point of every operation, before or after the write, with no process at work.
func crashed(t *testing.T, s *supervisor.Site, operations map[string]crash, after bool) []*point {
	t.Helper()
	s.LogLevel = "info" // the log of so many runs is only read by those whom a failure makes
	s.Bounds = []string{"max_concurrent = 500", `request_timeout = "30s"`}
	p := s.Start()
	client := s.Client(p)
	ctx, cancel := context.WithTimeout(t.Context(), recovery)
	defer cancel()

	var points, fresh []*point
	for name, c := range operations {
		for n := range count(ctx, t, s, client, c) {
			at := &point{operation: name, number: n + 1, after: after}
			if c.prepare == nil {
				fresh = append(fresh, at)
			} else {
				points = append(points, at)
			}
		}
	}
	failed := func(p *point, err error) { t.Fatalf("%s: %v", p, err) }
	prepare := func(p *point) (err error) {
		p.box, err = prepared(ctx, s, client, operations[p.operation])
		return err
	}
	all(points, prepare, failed)
	all(fresh, prepare, failed) // last, because the loop takes a start that nobody is at for abandoned
	points = append(points, fresh...)
	all(points, func(p *point) error {
		return p.die(ctx, s, func() error { return operations[p.operation].call(ctx, client, p.box) })
	}, failed)
	p.Kill()
	s.Gate.Open()
	t.Logf("a process died at %d points", len(points))
	return points
}

// count is how many of the writes that are wanted the operation takes, without those that another one's write to the same object makes void: a
// run has so many at least.
func count(ctx context.Context, t *testing.T, s *supervisor.Site, client *supervisor.Client, c crash) int {
	t.Helper()
	b, err := prepared(ctx, s, client, c)
	must(t, err)
	before := len(s.Gate.Writes(b.Namespace))
	must(t, c.call(ctx, client, b))
	must(t, c.done(ctx, s, b))
	took := 0
	for _, w := range s.Gate.Writes(b.Namespace)[before:] {
		if w.Took() && strings.Contains(w.Path, *only) {
			took++
		}
	}
	return took
}

func prepared(ctx context.Context, s *supervisor.Site, client *supervisor.Client, c crash) (*supervisor.Box, error) {
	ns, err := s.Namespace(ctx, nil)
	if err != nil {
		return nil, err
	}
	if c.secrets > 0 {
		if err := quotaOf(ctx, s, ns, "few", corev1.ResourceSecrets, *resource.NewQuantity(c.secrets, resource.DecimalSI)); err != nil {
			return nil, err
		}
	}
	b, err := s.Make(ctx, ns)
	if err != nil {
		return nil, err
	}
	if c.prepare == nil {
		return b, nil
	}
	if err := c.prepare(ctx, client, b); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	return b, nil
}

// die begins the operation and returns when it is held at the point, which must be reached: by the call, or by the loop that completes
// the run after it.
func (p *point) die(ctx context.Context, s *supervisor.Site, call func() error) error {
	p.hold = s.Gate.Stop(p.box.Namespace, *only, p.number, p.after)
	refused := make(chan error, 1)
	go func() {
		if err := call(); err != nil {
			refused <- err
		}
	}()
	select {
	case <-p.hold.Reached():
		return nil
	case err := <-refused:
		return fmt.Errorf("the call ended before: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settling ends the wait for a sandbox to settle.
const settling = 90 * time.Second

// After the same crashes nobody calls: the reconcile loop of another process completes or undoes each of them.
func TestLoopAfterCrash(t *testing.T) {
	t.Parallel()
	for name, of := range dialects {
		t.Run(name, func(t *testing.T) {
			c, dialect := of(t)
			loopAfterCrash(t, supervisor.New(t, c, dialect))
		})
	}
}

func loopAfterCrash(t *testing.T, s *supervisor.Site) {
	t.Helper()
	points := crashed(t, s, crashes(other), true)
	s.Start()
	ctx, cancel := context.WithTimeout(t.Context(), settling)
	defer cancel()
	defer tellTimes(t, points)
	began := time.Now()
	all(points, func(p *point) error {
		defer func() { p.took = time.Since(began) }()
		if err := supervisor.Await(ctx, func() error { return quiet(ctx, s, p.box) }); err != nil {
			return fmt.Errorf("not settled within %s: %w", settling, err)
		}
		return nil
	}, func(p *point, err error) { t.Errorf("crashed at %s: %v", p, err) })
}

// quiet says why a sandbox is not settled: neither up, ready and whole, nor stopped with nothing left. A run that is up may be without some
// parts.
func quiet(ctx context.Context, s *supervisor.Site, b *supervisor.Box, without ...string) error {
	box, err := b.Object(ctx)
	if err != nil {
		return err
	}
	r := recordOf(box)
	if r["bootstrap-phase"] != "" || r["bootstrapping"] != "" {
		return fmt.Errorf("the record is %v", r)
	}
	if box.Suspended() {
		return stopped(ctx, s, b)
	}
	if r["readiness"] != "ready" {
		return errors.New("a run is up and not ready")
	}
	return stands(func(*supervisor.Box) supervisor.Run { return supervisor.Run{Generation: r["generation"]} }, without...)(ctx, s, b)
}

func restarted(run func(*supervisor.Box) supervisor.Run) func(context.Context, *supervisor.Client, *supervisor.Box) error {
	return func(ctx context.Context, c *supervisor.Client, b *supervisor.Box) error {
		_, err := c.Restart(ctx, b, run(b))
		return err
	}
}

// stands says what is missing of the run that must be up, but for what it may be without.
func stands(run func(*supervisor.Box) supervisor.Run, without ...string) func(context.Context, *supervisor.Site, *supervisor.Box) error {
	return func(ctx context.Context, s *supervisor.Site, b *supervisor.Box) error {
		now, err := s.History.Look(ctx, b.Namespace)
		if err != nil {
			return err
		}
		may := func(key string) bool { return slices.Contains(without, key) }
		if diff := gocmp.Diff(slices.DeleteFunc(whole(b, run(b).Generation), may), slices.DeleteFunc(now.Companions(), may)); diff != "" {
			return fmt.Errorf("objects of the run (-want +got):\n%s", diff)
		}
		return nil
	}
}

// The same holds of the older version of the resource.
func TestPremisesOfAWriteInV1alpha1(t *testing.T) {
	t.Parallel()
	c, dialect := dialects["v1alpha1"](t)
	premises(t, c, dialect)
}
