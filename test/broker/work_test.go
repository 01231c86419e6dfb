package broker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// work is an allowlist that is published and read, by the parts of the daemons, over connections of their identities.
type work struct {
	t       testing.TB
	signer  *allowlist.Signer
	publics string
	clock   allowkv.Clock
	source  *allowkvtest.Source
	// halt ends the writer that runs.
	halt func()
}

func newWork(t testing.TB) *work {
	t.Helper()
	signer, clock := allowkvtest.Signer(t), allowkv.NewClock()
	return &work{
		t: t, signer: signer, publics: allowkvtest.KeysFile(t, signer), clock: clock, source: allowkvtest.NewSource(clock, allowlist.List{}),
	}
}

// lists makes these the namespaces that are published.
func (w *work) lists(names ...string) {
	w.t.Helper()
	w.source.Set(allowkvtest.List(w.t, names...))
}

// publish runs a writer as nswatch until the test ends, or halt is called. It begins a new term whenever one is over.
func (w *work) publish(urls ...string) {
	w.t.Helper()
	cfg := allowkv.PublisherConfig{GatewayID: gatewayID, Name: "nswatch-0", Settings: allowlist.DefaultSettings(), PublicKeysFile: w.publics}
	publisher, err := allowkv.NewPublisher(cfg, connect(w.t, "nswatch", urls...), w.signer, w.clock, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		w.t.Fatal(err)
	}
	w.halt = background(w.t, "the writer", func(ctx context.Context) error {
		for ctx.Err() == nil {
			_, _ = publisher.Lead(ctx, w.source, make(chan struct{}))
		}
		return nil
	})
}

// reader runs a reader as an identity until the test ends.
func (w *work) reader(who string, urls ...string) *reading {
	w.t.Helper()
	cfg := allowkv.ReaderConfig{GatewayID: gatewayID, Name: who, Config: allowkv.DefaultConfig()}
	cfg.Config.PublicKeysFile = w.publics
	reader, err := allowkv.NewReader(cfg, connect(w.t, who, urls...), zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		w.t.Fatal(err)
	}
	background(w.t, "the reader of "+who, reader.Run)
	return &reading{Reader: reader, t: w.t, who: who}
}

// reading is a reader that runs.
type reading struct {
	*allowkv.Reader
	t   testing.TB
	who string
}

// allows waits until the reader says yes.
func (r *reading) allows(namespace string) {
	r.t.Helper()
	cluster.Eventually(r.t, r.who+" allows "+namespace, func(context.Context) error {
		if a := r.Check(namespace); !a.Allowed() {
			return fmt.Errorf("refused: %s", a.Reason)
		}
		return nil
	})
}

// refuses waits until the reader says no for this reason.
func (r *reading) refuses(namespace string, reason verdict.Reason) {
	r.t.Helper()
	cluster.Eventually(r.t, r.who+" refuses "+namespace, func(context.Context) error {
		if a := r.Check(namespace); a.Allowed() || a.Reason != reason {
			return fmt.Errorf("allowed %t, reason %s", a.Allowed(), a.Reason)
		}
		return nil
	})
}

// watched is what a continuous reader saw: how often it said yes and no to what is listed, and whether it ever said yes to what is not.
type watched struct {
	yes, no int
	reasons map[verdict.Reason]int
	wrong   string
}

// watch asks over and over for a namespace that stays listed, and for one that is not, until the function that it returns is called.
func (r *reading) watch(kept, dropped string) (end func() watched) {
	r.t.Helper()
	stop, done := make(chan struct{}), make(chan watched, 1)
	halt := sync.OnceFunc(func() { close(stop) })
	r.t.Cleanup(halt)
	go func() {
		seen := watched{reasons: map[verdict.Reason]int{}}
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			if a := r.Check(dropped); a.Allowed() && seen.wrong == "" {
				seen.wrong = fmt.Sprintf("%s was allowed at epoch %d, revision %d", dropped, a.Epoch, a.Revision)
			}
			if a := r.Check(kept); a.Allowed() {
				seen.yes++
			} else {
				seen.no++
				seen.reasons[a.Reason]++
			}
			select {
			case <-ticker.C:
			case <-stop:
				done <- seen
				return
			}
		}
	}()
	return func() watched {
		r.t.Helper()
		halt()
		seen := <-done
		if seen.wrong != "" {
			r.t.Errorf("%s: %s", r.who, seen.wrong)
		}
		return seen
	}
}
