package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Loop keeps the companion sets of one gateway. Make it with New.
type Loop struct {
	cfg       Settings
	scheme    workspace.Scheme
	conductor Conductor
	watches   metadata.Interface
	pods      PodWatcher
	reporter  *reporter
	now       func() time.Time
	random    func() float64
}

// New checks the settings and registers the metrics portcullis_supervisorctl_reconcile_*. It starts nothing and sends nothing.
// scheme says which gateway's sandboxes are kept and where they are. watches and whole are of the client for lists and watches,
// kubeclient.Clients.Watches.
func New(
	cfg Settings, scheme workspace.Scheme, conductor Conductor, watches metadata.Interface, whole PodWatcher, log zerolog.Logger, reg prometheus.Registerer,
) (*Loop, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := scheme.Validate(); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	if conductor == nil || watches == nil || whole == nil {
		return nil, errors.New("reconcile: a conductor and a client for watches must be given")
	}
	if _, err := selectors(scheme); err != nil {
		return nil, err
	}
	r, err := newReporter(log, reg)
	if err != nil {
		return nil, err
	}
	return &Loop{cfg: cfg, scheme: scheme, conductor: conductor, watches: watches, pods: whole, reporter: r, now: time.Now, random: rand.Float64}, nil
}

// degradedLook is how often a settled sandbox is looked at while a watch does not work.
const degradedLook = 2 * time.Minute

func (l *Loop) pace() pace {
	return pace{
		resync: l.cfg.Resync.Std(), full: l.cfg.FullLook.Std(), most: max(degradedLook, l.cfg.Resync.Std()),
		between: time.Second / time.Duration(l.cfg.Rate),
	}
}

// Lead keeps the sets for one term; it is a leadership.Lead. It begins with nothing, and returns nil when ctx ends or released is
// closed, and everything that it started has ended. Work that is under way then is broken off: whoever leads next finds it. The error
// says that it could not begin.
func (l *Loop) Lead(ctx context.Context, released <-chan struct{}) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard())) // what client-go would say, watched says
	defer cancel()
	d := newDesk(newLedger(l.scheme.GatewayID, l.pace(), l.random), l.now, l.reporter.reopened)
	all, err := streams(l.scheme, l.watches, l.pods, func(k kind, err error) {
		if ctx.Err() == nil {
			l.reporter.watched(k, err)
			d.health(k, err == nil)
		}
	})
	if err != nil {
		return err
	}
	defer l.conductor.Lead()()
	l.reporter.desk.Store(d)
	defer l.reporter.desk.Store(nil)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	for _, s := range all {
		reflector := cache.NewReflectorWithOptions(s, nil, feed{kind: s.kind, desk: d}, cache.ReflectorOptions{
			Name: "reconcile/" + s.kind.String(), TypeDescription: s.kind.String(),
		})
		parts.Go(func() { reflector.RunWithContext(ctx) })
	}
	for range l.cfg.Workers {
		parts.Go(func() { l.work(ctx, d) })
	}
	select {
	case <-ctx.Done():
	case <-released:
	}
	return nil
}

// work makes looks, one after another.
func (l *Loop) work(ctx context.Context, d *desk) {
	for {
		t, ok := d.take(ctx)
		if !ok {
			return
		}
		f := l.guarded(ctx, &t)
		if ctx.Err() != nil {
			return
		}
		changed := d.done(t, &f)
		l.reporter.looked(&t, &f, changed)
	}
}

// guarded is a look in which a defect is this look's failure: what makes one panic would end the next leader as well, and with it keep all
// sandboxes from being looked at.
func (l *Loop) guarded(ctx context.Context, t *task) (f finding) {
	defer func() {
		if value := recover(); value != nil {
			l.reporter.panicked(t, conduct.Recovered(value))
			f = finding{ending: failed, reason: verdict.Unexplained, explanation: "the look panicked; the log has the stack"}
		}
	}()
	return look(ctx, l.conductor, t, l.now)
}
