package leadership

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Lead is what the holder of the Lease does. It returns when
//
//   - ctx ends: the Lease is lost. It must stop at once and write nothing more;
//   - released is closed: the process is asked to stop, and the Lease is released already (rule W10). It may still
//     write what a clean end needs;
//   - it cannot go on. The error says why; then the Lease is released, and the process competes again after a pause.
//
// What it returns in the first two cases is not looked at.
type Lead func(ctx context.Context, released <-chan struct{}) error

// Election competes for a Lease. Make it with New.
type Election struct {
	cfg      Settings
	daemon   string
	identity string
	leases   coordinationv1.LeasesGetter
	lead     Lead
	log      zerolog.Logger
	metrics  *metrics
	faults   faults
	started  atomic.Bool
}

// New checks the settings, whose LeaseName and LeaseNamespace must be set, and registers the metrics. It starts
// nothing and sends nothing. daemon is the name of the daemon, at most 32 of a-z and 0-9: it stands in the names of the metrics
// and in the label of the Lease. identity names this process and no other; see NewIdentity.
func New(cfg Settings, daemon, identity string, leases coordinationv1.LeasesGetter, lead Lead, log zerolog.Logger, reg prometheus.Registerer) (*Election, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if !daemonName.MatchString(daemon) {
		return nil, fmt.Errorf("leadership: the daemon's name is %.40q, must be 1 to 32 of a-z and 0-9, the first a letter", daemon)
	}
	if identity == "" || leases == nil || lead == nil {
		return nil, errors.New("leadership: an identity, a client for Leases and something to lead are needed")
	}
	m, err := newMetrics(daemon, reg)
	if err != nil {
		return nil, err
	}
	return &Election{
		cfg: cfg, daemon: daemon, identity: identity, leases: leases, lead: lead, metrics: m,
		log: log.With().Str(keyLease, cfg.LeaseNamespace+"/"+cfg.LeaseName).Str(keyIdentity, identity).Logger(),
	}, nil
}

// Run competes, leads, and competes again, until ctx ends; then it releases the Lease, lets the term end, and returns
// nil. It returns an error only when called twice.
func (e *Election) Run(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return errors.New("leadership: the election was started twice")
	}
	e.log.Info().Msg("competing for the Lease")
	pauses := e.pauses()
	for ctx.Err() == nil {
		begun := time.Now()
		end, err := e.round(ctx)
		if err != nil {
			return err
		}
		if time.Since(begun) > maxPause {
			pauses.Reset()
		}
		// A process that cannot make use of its terms must not keep others from theirs. One that lost the Lease need
		// not wait: the elector takes its time.
		if end == endItself {
			sleep(ctx, pauses.NextBackOff())
		}
	}
	return nil
}

// maxPause bounds the pause between two terms of one process.
const maxPause = 30 * time.Second

// pauses are long enough for a standby's next try to come first, unless it is unlucky.
func (e *Election) pauses() *backoff.ExponentialBackOff {
	retry := e.cfg.RetryPeriod.Std()
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Duration(jitter*float64(retry))),
		backoff.WithMaxInterval(maxPause),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.3),
		backoff.WithMaxElapsedTime(0),
	)
}

// round competes until the Lease is held, leads until the term is over, and returns how it ended; nothing when ctx
// ended before there was one.
func (e *Election) round(ctx context.Context) (end string, err error) {
	term, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(nil)
	l := e.newLock(func() { lose(errRenewDeadline) })
	defer l.disarm()
	elector, err := e.newElector(l)
	if err != nil {
		return "", err
	}
	// client-go's own lines say what lock says, at every try.
	campaign, stop := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(campaign)
	}()
	defer func() {
		stop()
		<-over
	}()
	select {
	case <-l.held:
	case <-over:
	}
	if !isClosed(l.held) {
		return "", nil
	}
	t := &tenure{Election: e, lock: l, lose: lose, stop: stop, over: over, done: make(chan struct{}), released: make(chan struct{})}
	return t.run(ctx, term), nil
}

func (e *Election) newLock(overdue func()) *lock {
	return &lock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: e.cfg.LeaseName, Namespace: e.cfg.LeaseNamespace},
			Client:     e.leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.identity},
			Labels:     map[string]string{"app.kubernetes.io/name": namePrefix + e.daemon},
		},
		try:     e.cfg.tryTimeout(),
		renew:   e.cfg.RenewDeadline.Std(),
		log:     e.log,
		metrics: e.metrics,
		faults:  &e.faults,
		held:    make(chan struct{}),
		overdue: overdue,
	}
}

// newElector does not let client-go release the Lease: it would do so before it tells that the Lease is lost, for as
// long as renew_deadline, and so let a term outlive the Lease.
func (e *Election) newElector(l *lock) (*leaderelection.LeaderElector, error) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          l,
		LeaseDuration: e.cfg.LeaseDuration.Std(),
		RenewDeadline: e.cfg.RenewDeadline.Std(),
		RetryPeriod:   e.cfg.RetryPeriod.Std(),
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {}, // lock knows first
			OnStoppedLeading: func() {},
		},
		Name: e.cfg.LeaseName,
	})
	if err != nil {
		return nil, fmt.Errorf("leadership: make the elector: %w", err)
	}
	return elector, nil
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
