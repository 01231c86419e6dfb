package leadership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

const (
	keyLease    = "lease"
	keyIdentity = "identity"
	keyHolder   = "holder"
)

// logEvery is how often failed requests are logged at most; the counter has them all.
const logEvery = 10 * time.Second

var (
	errTry         = errors.New("no answer in time")
	errOtherHolder = errors.New("another process holds the Lease")
)

// lock is the Lease in one round of the election. It bounds each request, sees when the Lease is held, and from then
// on watches the renew deadline by itself: client-go begins to count only when a renewal is due, and counts from the
// end of the last one.
type lock struct {
	resourcelock.Interface
	try     time.Duration // for one request
	renew   time.Duration // from the begin of a renewal to the end of the term
	log     zerolog.Logger
	metrics *metrics
	faults  *faults

	held    chan struct{} // closed when the Lease is held
	overdue func()        // called once renew has passed without a renewal

	mu       sync.Mutex
	deadline *time.Timer // nil until the Lease is held
	holder   string      // as last seen
}

// Get fulfils resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var record *resourcelock.LeaderElectionRecord
	var raw []byte
	err := l.request(ctx, opGet, func(ctx context.Context) (err error) {
		record, raw, err = l.Interface.Get(ctx)
		return err
	})
	if err == nil {
		l.saw(record.HolderIdentity)
	}
	return record, raw, err
}

// Create fulfils resourcelock.Interface.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, opCreate, record, l.Interface.Create)
}

// Update fulfils resourcelock.Interface.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, opUpdate, record, l.Interface.Update)
}

func (l *lock) write(ctx context.Context, op string, record resourcelock.LeaderElectionRecord,
	call func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	begun := time.Now()
	err := l.request(ctx, op, func(ctx context.Context) error { return call(ctx, record) })
	if err == nil && record.HolderIdentity == l.Identity() {
		l.renewed(begun)
	}
	return err
}

// request makes one request within its time and counts what failed.
func (l *lock) request(ctx context.Context, op string, call func(context.Context) error) error {
	bounded, cancel := context.WithTimeoutCause(ctx, l.try, errTry)
	defer cancel()
	err := call(bounded)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
	case ctx.Err() != nil: // the caller gave up
	default:
		if cause := context.Cause(bounded); cause != nil {
			err = fmt.Errorf("%w (%w after %s)", err, cause, l.try)
		}
		l.metrics.errors.WithLabelValues(op).Inc()
		if held, ok := l.faults.next(time.Now()); ok {
			l.log.Warn().Err(err).Str(telemetry.KeyKind, op).Int(telemetry.KeyCount, held).
				Msg("request for the Lease failed; see the permissions for leases and the API server")
		}
	}
	return err
}

// renewed pushes the end of the term on.
func (l *lock) renewed(begun time.Time) {
	left := l.renew - time.Since(begun)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = l.Identity()
	if l.deadline != nil {
		l.deadline.Reset(left)
		return
	}
	l.deadline = time.AfterFunc(left, l.overdue)
	close(l.held)
}

// saw tells of other holders.
func (l *lock) saw(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if holder == l.holder {
		return
	}
	l.holder = holder
	if holder != "" && holder != l.Identity() {
		l.log.Info().Str(keyHolder, holder).Msg("standing by; another process holds the Lease")
	}
}

// disarm ends the watch of the renew deadline.
func (l *lock) disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deadline != nil {
		l.deadline.Stop()
	}
}

// release gives the Lease up, so that a successor need not wait for its end. It must not run beside an elector. The
// error says that the Lease is another's or that nobody knows whose.
func (l *lock) release(ctx context.Context) error {
	for {
		record, _, err := l.Get(ctx)
		if err != nil {
			return fmt.Errorf("read the Lease to release it: %w", err)
		}
		if record.HolderIdentity != l.Identity() {
			return fmt.Errorf("release the Lease: %w", errOtherHolder)
		}
		now := metav1.Now()
		err = l.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, // the API wants one
			AcquireTime:          now,
			RenewTime:            now,
			LeaderTransitions:    record.LeaderTransitions,
		})
		// A renewal that was given up on may still arrive.
		if !apierrors.IsConflict(err) || ctx.Err() != nil {
			if err != nil {
				return fmt.Errorf("release the Lease: %w", err)
			}
			return nil
		}
	}
}

// faults decides which failures are logged. One goroutine at a time makes requests.
type faults struct {
	logged time.Time
	held   int
}

// next reports whether a failure is to be logged, and how many were not since the last that was.
func (f *faults) next(now time.Time) (held int, ok bool) {
	if !f.logged.IsZero() && now.Sub(f.logged) < logEvery {
		f.held++
		return 0, false
	}
	held = f.held
	*f = faults{logged: now}
	return held, true
}
