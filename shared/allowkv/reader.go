package allowkv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// ReaderConfig says which list a Reader reads, and how.
type ReaderConfig struct {
	// GatewayID is the gateway whose list it is; see allowlist.CheckGatewayID.
	GatewayID string
	// Name goes into the name of the marks file, such as that of the daemon: readers that share Config.StateDir must
	// have names of their own. 1 to 64 lower-case letters, digits and dashes.
	Name string
	// Config are the settings; public keys are required. Start from DefaultConfig.
	Config Config
}

// Reader keeps the list of one gateway and says whether a namespace may be trusted now. Make it with NewReader; it
// denies until Run has seen proof, and denies again when Run has ended. All methods are safe for concurrent use.
//
// Its NATS user needs to publish to CONSUMER.CREATE.<Stream>.*.$KV.<Bucket>.<gateway id>.* and to
// CONSUMER.MSG.NEXT.<Stream>.* under the API prefix, and to subscribe to its inbox. CONSUMER.DELETE.<Stream>.* is a
// courtesy to the server.
type Reader struct {
	gatewayID string
	conn      Connection
	interval  time.Duration
	start     time.Time
	started   atomic.Bool
	owner     *readerOwner

	view atomic.Pointer[allowlist.View]

	mu      sync.Mutex
	report  readerReport
	changed chan struct{}
}

// readerReport is what the owner last published, for all but Check. Its view is the same.
type readerReport struct {
	at        allowlist.Instant
	view      *allowlist.View
	condition allowlist.Condition // at that instant
	status    allowlist.Status
	// trouble is why there is no consumer; nil while there is one.
	trouble error
	// unstored is why the high-water marks could not be stored; nil when they are.
	unstored error
}

// NewReader checks the settings, reads the public keys and the high-water marks, and registers the metrics
// portcullis_allowlist_reader_*; two Readers in one process need registerers that label them apart. It starts nothing.
// The error is a setting, or a key file, that cannot be used. Marks that cannot be read are logged and counted: the
// Reader then starts without, and rule R4 stands between it and a recorded stream.
func NewReader(cfg ReaderConfig, conn Connection, log zerolog.Logger, reg prometheus.Registerer) (*Reader, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, errors.New("allowlist reader: no connection was given")
	}
	keyFile := publicKeys{path: cfg.Config.PublicKeysFile}
	keySet, _, err := keyFile.poll()
	if err != nil {
		return nil, fmt.Errorf("allowlist reader: %w", err)
	}
	if reg == nil {
		return nil, errors.New("allowlist reader: no metrics registerer was given")
	}
	metrics, start := newReaderMetrics(), time.Now()
	r := &Reader{
		gatewayID: cfg.GatewayID, conn: conn, interval: cfg.Config.HeartbeatInterval.Std(), start: start, changed: make(chan struct{}),
	}
	r.owner = &readerOwner{
		reader: r, clock: clockFrom(start), keys: keyFile, metrics: metrics,
		log:     readerLog{Logger: log.With().Str(logGateway, cfg.GatewayID).Logger()},
		marks:   newMarksFile(cfg.Config.StateDir, cfg.Name, cfg.GatewayID),
		silence: max(silentBeats*r.interval, leastSilence), aging: min(agingLimit, cfg.Config.MaxStaleness.Std()/3),
	}
	marks := r.owner.loadMarks()
	if r.owner.machine, err = allowlist.NewReader(cfg.GatewayID, keySet, cfg.Config.Settings, marks); err != nil {
		return nil, err
	}
	// Last, so that a reader that is not made leaves nothing behind.
	if err := metrics.register(reg); err != nil {
		return nil, err
	}
	r.owner.trouble = errNotRunning
	r.owner.publish(r.owner.clock())
	return r, nil
}

func (cfg *ReaderConfig) check() error {
	var problems []error
	if err := allowlist.CheckGatewayID(cfg.GatewayID); err != nil {
		problems = append(problems, fmt.Errorf("allowlist reader: %w", err))
	}
	if !fileNamePart(cfg.Name) {
		problems = append(problems, fmt.Errorf("allowlist reader: name %q must be 1 to 64 lower-case letters, digits and dashes", cfg.Name))
	}
	settings := cfg.Config
	settings.Required = true
	settings.Validate(func(key, problem string) {
		problems = append(problems, fmt.Errorf("portcullis.%s.%s: %s", allowlist.Section, key, problem))
	})
	return errors.Join(problems...)
}

func fileNamePart(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

var (
	errNotRunning  = errors.New("the reader does not run")
	errNotAnswered = errors.New("no consumer has been made yet")
)

// Run keeps the list until ctx ends; then it waits until all that it started has ended, and returns nil. What NATS does
// never ends it. It returns an error only when called twice.
func (r *Reader) Run(ctx context.Context) error {
	if !r.started.CompareAndSwap(false, true) {
		return errors.New("allowlist reader: it was started twice")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	records := newFeed(r.conn, r.gatewayID, r.owner.clock)
	done := make(chan struct{})
	go func() {
		defer close(done)
		records.run(ctx)
	}()
	r.owner.run(ctx, records)
	r.owner.shut()
	cancel()
	<-done
	return nil
}

// publish replaces what all answers come from. Called by the owner only.
func (r *Reader) publish(next readerReport) (before allowlist.Condition) {
	next.condition = next.view.Condition(next.at)
	next.status.Condition = next.condition
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.report
	r.report = next
	r.view.Store(next.view)
	// Between two reports a view turns Stale by itself, and callers see it. They must be told when that is over, too. The
	// clock is read after everybody who still used the last view has read it: see Check and Snapshot.
	seen := last.view.Condition(since(r.start))
	if next.condition != last.condition || next.condition != seen || !next.view.SameList(last.view) {
		close(r.changed)
		r.changed = make(chan struct{})
	}
	return last.condition
}

// Check answers whether namespace may be trusted now (rule R8). It takes no lock, allocates nothing, does no I/O and
// never blocks. An operation that takes long checks again before it commits.
func (r *Reader) Check(namespace string) allowlist.Answer {
	now := since(r.start) // before the view, so that whoever saw an old view turn Stale is told by Changed
	return r.view.Load().Check(namespace, now)
}

// newest is the last report, with the instant at which it is looked at.
func (r *Reader) newest() (readerReport, allowlist.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report, since(r.start)
}

// Status describes the reader for people and metrics. Nothing is to be decided by it.
func (r *Reader) Status() allowlist.Status {
	last, now := r.newest()
	s := last.status
	s.Condition = last.view.Condition(now)
	if s.Proven {
		s.Age += max(now.Mono-last.at.Mono, 0)
	}
	return s
}

// Ready is a readiness check: nil only while the list is Fresh. Otherwise the error says what the state is, why, and
// what to do. It does no I/O and ignores ctx.
func (r *Reader) Ready(context.Context) error {
	last, now := r.newest()
	condition := last.view.Condition(now)
	if condition.State == allowlist.Fresh {
		return nil
	}
	err := fmt.Errorf("the allowlist of gateway %s is %s (%s): %s", r.gatewayID, condition.State, condition.Reason, advice(condition.Reason))
	for _, cause := range []error{last.trouble, last.unstored} {
		if cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	return err
}

// advice is what to look at when nothing is granted for a reason.
func advice(reason verdict.Reason) string {
	switch reason {
	case verdict.Stale:
		return "no heartbeat came in time: look whether nswatch has a leader that can read its source, and at NATS"
	case verdict.Withdrawn:
		return "nswatch withdrew it, or somebody deleted a key: look at the log of nswatch and at who can write to the bucket"
	case verdict.Invalid:
		return "a record does not verify: compare the public keys with nswatch's key, then look for who else writes to the bucket"
	case verdict.Forked:
		return "two lists were signed under one revision: find the second writer, then restart the leader of nswatch"
	case verdict.Behind:
		return "a heartbeat names a list that has not arrived: look at NATS if this lasts"
	default:
		return "no list that a heartbeat vouches for has arrived: look whether nswatch runs for this gateway, and at NATS"
	}
}

// Changed is the channel of Snapshot without the list: for a caller that asks Check about a namespace again whenever the
// answer may be another.
func (r *Reader) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Listing is what a Reader says yes to at one instant. The zero Listing lists nothing.
type Listing struct {
	Condition allowlist.Condition
	// Epoch and Revision of the newest list that is held; zero when none is.
	Epoch, Revision uint64
	// Namespaces are those that are granted, by name; none unless the condition is Fresh. The caller's to keep.
	Namespaces []allowlist.Entry
}

// Snapshot lists what Check says yes to now, for a gateway that watches the list itself, with a channel that is closed
// when the list or the condition has changed since. It never blocks. Nothing is queued per caller: who is slow sees
// fewer changes and the newest state. A Listing grows old: what is decided by it later than at once asks Check again.
func (r *Reader) Snapshot() (l Listing, changed <-chan struct{}) {
	r.mu.Lock()
	view, status, changed, now := r.report.view, r.report.status, r.changed, since(r.start)
	r.mu.Unlock()
	return Listing{
		Condition: view.Condition(now), Epoch: status.Epoch, Revision: status.Revision, Namespaces: view.Granted(now),
	}, changed
}
