package allowkv

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// PublisherConfig says whose list is published, and by whom.
type PublisherConfig struct {
	// GatewayID is the gateway that the list is for; see allowlist.CheckGatewayID.
	GatewayID string
	// Name is this process, unique to it: a Pod name with a random suffix. 1 to 128 of letters, digits and -_.:
	Name string
	// Settings must be valid; see allowlist.Settings.
	Settings allowlist.Settings
	// PublicKeysFile holds the keys that records may be signed with, as in Config; the signer's must be among them. It
	// is read again while a term is under way, so that a successor with a key that was added is known for one.
	PublicKeysFile string
}

// Publisher runs the terms of one gateway's writer, one after the other. It is the shell of allowlist.Writer: it reads
// the clocks, carries leader-reads and writes, and decides nothing. All methods are safe for concurrent use.
type Publisher struct {
	config  PublisherConfig
	conn    Connection
	signer  *allowlist.Signer
	clock   Clock
	log     zerolog.Logger
	metrics *publisherMetrics

	busy atomic.Bool
	// floor is the highest epoch of earlier terms, keys the newest set that could be read. They belong to whoever has
	// set busy.
	floor   uint64
	keys    allowlist.KeySet
	keyFile publicKeys

	status atomic.Pointer[publisherStatus]
}

// publisherStatus is a status with the instant that its ages are of.
type publisherStatus struct {
	allowlist.WriterStatus
	at time.Duration
}

var (
	errPublisherBusy  = errors.New("a term is under way already: one process leads once at a time")
	errPublisherNoDep = errors.New("connection, clock, source and metrics registerer must be given")
)

// NewPublisher checks config, reads the public keys, which must hold signer's, and registers the metrics
// portcullis_allowlist_writer_*; two publishers in one process need registerers that label them apart. It starts
// nothing. clock must be the one that the sources given to Lead use.
func NewPublisher(
	config PublisherConfig, conn Connection, signer *allowlist.Signer, clock Clock, log zerolog.Logger, reg prometheus.Registerer,
) (*Publisher, error) {
	if conn == nil || clock == nil || reg == nil {
		return nil, fmt.Errorf("allowlist publisher: %w", errPublisherNoDep)
	}
	p := &Publisher{config: config, conn: conn, signer: signer, clock: clock, log: log, keyFile: publicKeys{path: config.PublicKeysFile}}
	var err error
	if p.keys, _, err = p.keyFile.poll(); err != nil {
		return nil, fmt.Errorf("allowlist publisher: %w", err)
	}
	// A Writer is made and dropped: whatever it would refuse at the start of a term is refused now.
	if _, err := p.newWriter(allowlist.Source{Kind: allowlist.SourceLabel, Selector: "-"}, p.keys); err != nil {
		return nil, err
	}
	if p.metrics, err = newPublisherMetrics(reg, p.Status); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Publisher) newWriter(source allowlist.Source, keys allowlist.KeySet) (*allowlist.Writer, error) {
	return allowlist.NewWriter(allowlist.WriterConfig{
		GatewayID: p.config.GatewayID, Name: p.config.Name, Source: source, EpochFloor: p.floor, Settings: p.config.Settings,
	}, p.signer, keys)
}

// Lead runs one term, fed by source, until it is over, and returns how it ended, when everything it started has ended.
// Lead logs what happens in the term and not its end, which is the caller's to log.
//
// The end of ctx means that the Lease is lost: nothing more is sent, Lead returns at once, and the records stay as they
// are; readers close by themselves unless a successor writes. A record that was on its way may still be stored, and
// only if nobody else has written its key since (rule W1).
//
// The closing of released means a clean stop whose Lease is released already (rule W10): Lead falls silent, waits
// stop_grace for a successor's first record, withdraws the list if there is none, and returns with EndStopped. ctx must
// stay alive meanwhile; its end cuts that short.
//
// A signer whose key has left the public keys ends the term (EndKeyGone), and every later one at its begin.
//
// An error means that no term was begun: source describes itself wrongly, or another term is under way.
func (p *Publisher) Lead(ctx context.Context, source Source, released <-chan struct{}) (allowlist.End, error) {
	if source == nil {
		return allowlist.End{}, fmt.Errorf("lead: %w", errPublisherNoDep)
	}
	if !p.busy.CompareAndSwap(false, true) {
		return allowlist.End{}, fmt.Errorf("lead: %w", errPublisherBusy)
	}
	defer p.busy.Store(false)
	// It begins with its own key alone, and is told the others before anything else.
	own, err := allowlist.NewKeySet(p.signer.Public())
	if err != nil {
		return allowlist.End{}, fmt.Errorf("lead: %w", err)
	}
	writer, err := p.newWriter(source.Describe(), own)
	if err != nil {
		return allowlist.End{}, fmt.Errorf("lead: %w", err)
	}
	end := newTerm(p, writer).run(ctx, source, released)
	p.floor = max(p.floor, writer.Epoch())
	p.status.Store(nil)
	p.metrics.terms.WithLabelValues(end.Cause.String()).Inc()
	return end, nil
}

// Status describes the term that is under way; the zero WriterStatus, which leads nothing, when there is none.
func (p *Publisher) Status() allowlist.WriterStatus {
	s := p.status.Load()
	if s == nil {
		return allowlist.WriterStatus{}
	}
	status := s.WriterStatus
	if status.Proven {
		status.ProofAge += max(0, p.clock().Mono-s.at)
	}
	return status
}

// attemptLimit bounds one leader-read or write. A leader that is lost is noticed by it, so it is a small part of the
// time for which readers wait for a beat.
func attemptLimit(settings allowlist.Settings) time.Duration {
	return min(2*time.Second, settings.MaxStaleness.Std()/4)
}
