package leadership_test

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
)

// patience ends a wait for something that will never happen.
const patience = 60 * time.Second

// settings has times that suit a test: renewals come often, and what must not happen has a wide margin.
func settings(lease, renew, retry time.Duration) leadership.Settings {
	return leadership.Settings{
		LeaseName: "portcullis-nswatch-blue", LeaseNamespace: "mesh",
		LeaseDuration: driverconf.Duration(lease), RenewDeadline: driverconf.Duration(renew), RetryPeriod: driverconf.Duration(retry),
	}
}

func roomy() leadership.Settings {
	return settings(60*time.Second, 30*time.Second, 50*time.Millisecond)
}

// term is one call of Lead.
type term struct {
	ctx      context.Context
	released <-chan struct{}
	end      chan<- error
}

// candidate is one process of the election.
type candidate struct {
	t     *testing.T
	name  string
	terms chan term
	reg   *prometheus.Registry
	log   *transcript
	stop  context.CancelFunc
	done  chan error
}

type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// newCandidate starts an election whose terms the test gets and ends.
func newCandidate(t *testing.T, s *apiServer, name string, cfg leadership.Settings) *candidate {
	t.Helper()
	return newCounted(t, s, name, cfg, &census{})
}

// census counts the candidates that lead, inside their terms.
type census struct{ leading, most atomic.Int32 }

func (n *census) enter() {
	for now := n.leading.Add(1); ; {
		most := n.most.Load()
		if now <= most || n.most.CompareAndSwap(most, now) {
			return
		}
	}
}

func (n *census) leave() { n.leading.Add(-1) }

func newCounted(t *testing.T, s *apiServer, name string, cfg leadership.Settings, count *census) *candidate {
	t.Helper()
	c := &candidate{t: t, name: name, terms: make(chan term, 64), reg: prometheus.NewRegistry(), log: &transcript{}, done: make(chan error, 1)}
	lead := func(ctx context.Context, released <-chan struct{}) error {
		count.enter()
		defer count.leave()
		end := make(chan error, 1)
		c.terms <- term{ctx, released, end}
		select {
		case err := <-end:
			return err
		case <-ctx.Done():
		case <-released:
		}
		return nil
	}
	e, err := leadership.New(cfg, "nswatch", name, s.client(name), lead, zerolog.New(c.log), c.reg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.stop = cancel
	go func() { c.done <- e.Run(ctx) }()
	t.Cleanup(func() {
		c.halt()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, c.log)
		}
	})
	return c
}

// halt asks for the stop and waits for it.
func (c *candidate) halt() {
	c.t.Helper()
	c.stop()
	select {
	case err := <-c.done:
		c.done <- err
		if err != nil {
			c.t.Errorf("%s: a requested stop ends with %v", c.name, err)
		}
	case <-time.After(patience):
		c.t.Fatalf("%s does not stop:\n%s", c.name, c.log)
	}
}

func (c *candidate) term() term {
	c.t.Helper()
	select {
	case begun := <-c.terms:
		return begun
	case <-time.After(patience):
		c.t.Fatalf("%s gets no term:\n%s", c.name, c.log)
		return term{}
	}
}

// metric is the sum of a metric's series, those with the label value when one is given.
func (c *candidate) metric(name, label string) float64 {
	c.t.Helper()
	families, err := c.reg.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "portcullis_nswatch_"+name || (label != "" && m.GetLabel()[0].GetValue() != label) {
				continue
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
