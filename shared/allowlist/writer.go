package allowlist

import (
	"errors"
	"fmt"
	"time"
)

// WriterConfig is one term of a writer.
type WriterConfig struct {
	GatewayID string
	// Name is this process, unique to it, as in Snapshot.Writer: a Pod name with a random suffix.
	Name string
	// Source has Kind and Selector or Path; versions come with the lists.
	Source Source
	// EpochFloor is the highest epoch that this process knows of from earlier terms; zero when it knows none. It
	// keeps epochs growing where both the bucket and the wall clock were lost.
	EpochFloor uint64
	Settings   Settings
}

// Writer is the state machine of one term of the writer (rules W1 to W6 and W9 to W11). It is told inputs and
// instants, and it plans: at most one record or leader-read is on its way at any time, every record is a
// compare-and-set, and no heartbeat goes out before the fencing write is acknowledged. It is not safe for concurrent
// use: one goroutine owns it.
//
// A leader that nobody can use must not keep the Lease from a standby that may be well: the term ends (EndIdle) when no
// live beat was acknowledged for twice max_staleness, counted from the last one or the begin of the term. So a leader
// that is cut off from NATS, or has lost its right to write, gives way, and so does one whose source hangs or is bad. A
// bad file has its grace first, and its withdrawal stands for the same time before the term ends; readers stay
// Withdrawn after that, whoever leads. The replicas of a writer normally see the same bad file, and then the Lease
// goes around at that pace until the file is good: the price of not being closed by one node's mount. A list that is
// too large is the same list everywhere: its withdrawal keeps the term.
type Writer struct {
	config WriterConfig
	signer *Signer
	keys   KeySet
	clocks clocks

	phase  phase
	flight flight
	over   *End

	// The term: its epoch, zero before take-over, and when on this clock it began.
	epoch uint64
	began time.Duration

	broker broker
	source source
	lists  lists
	beats  beats

	// stopAt is when a stopping writer looks whether it was succeeded; farewell says that its last beat is on its way.
	stopAt   time.Duration
	farewell bool
	// useful is when the term was last of use, or began: see idleAt.
	started bool
	useful  time.Duration
}

type phase uint8

const (
	takingOver phase = iota
	leading
	stopping
)

// flight is what is on its way and not answered.
type flight uint8

const (
	nothing flight = iota
	looking
	writingSnapshot
	writingBeat
)

// broker is what is known about the two keys.
type broker struct {
	snapshotSequence, heartbeatSequence uint64
	// read says that both were read in this term; doubt that they must be read again before anything is written.
	read, doubt      bool
	readAt, nextLook time.Duration
}

// lookEvery is how many intervals pass between two looks at keys that give no reason for doubt. A key that somebody
// else deleted or overwrote is noticed and put right after that long.
const lookEvery = 5

// NewWriter starts a term that has not done anything yet. keys must hold the signer's key: the Writer reads its own
// records. The error is a setting that is not valid.
func NewWriter(config WriterConfig, signer *Signer, keys KeySet) (*Writer, error) {
	if err := CheckGatewayID(config.GatewayID); err != nil {
		return nil, fmt.Errorf("allowlist writer: %w", err)
	}
	if problem := tokenProblem(config.Name, maxWriter); problem != "" {
		return nil, fmt.Errorf("allowlist writer: name %s %s", quote(config.Name), problem)
	}
	source := config.Source
	source.Version = "-"
	if err := source.check(); err != nil {
		return nil, fmt.Errorf("allowlist writer: %w", err)
	}
	if err := checkSettings(config.Settings); err != nil {
		return nil, err
	}
	if signer == nil || signer.private.IsZero() {
		return nil, fmt.Errorf("allowlist writer: %w", errNoKey)
	}
	if !keys.Has(signer.public) {
		return nil, fmt.Errorf("allowlist writer: signing key %s is not among the public keys: readers would refuse every record", signer.public.id)
	}
	if config.EpochFloor >= maxWhole {
		return nil, fmt.Errorf("allowlist writer: no epoch is left above %d", config.EpochFloor)
	}
	return &Writer{config: config, signer: signer, keys: keys}, nil
}

// Epoch is the epoch of the term; zero before the writer has chosen one.
func (w *Writer) Epoch() uint64 { return w.epoch }

// Step tells the writer that input happened at the instant at, and returns what is to be done.
func (w *Writer) Step(at Instant, input Input) Plan {
	var p Plan
	if !w.started {
		w.started, w.useful = true, at.Mono
	}
	if w.over == nil {
		w.watchClocks(at, &p)
		w.take(at, input, &p)
		w.watchUse(at)
	}
	if w.over == nil && w.flight == nothing {
		p.Action = w.next(at, &p)
	}
	if w.over != nil {
		p.Action = *w.over
		return p
	}
	p.Wake = w.wake(at)
	return p
}

func (p *Plan) find(kind FindingKind, key string, err error) {
	p.Findings = append(p.Findings, Finding{Kind: kind, Key: key, Cause: CauseOf(err), Err: err})
}

func (w *Writer) end(cause EndCause, err error) { w.over = &End{Cause: cause, Err: err} }

// watchClocks ends the term when the clock that dates the beats has not run: every reader would take every later beat
// for late. A new term starts a new epoch, and readers learn its clock anew.
func (w *Writer) watchClocks(at Instant, p *Plan) {
	switch w.clocks.observe(at, w.config.Settings.SourceMaxAge.Std(), w.config.Settings.MaxClockSkew.Std()) {
	case steady:
	case stalled:
		// Beats of an old proof are not made, and writes of an old leader conflict: nothing else is needed.
		p.find(FoundStall, "", nil)
	case stepped:
		p.find(FoundClockStep, "", nil)
	case slept:
		p.find(FoundSleep, "", nil)
		w.end(EndClock, errors.New("the machine slept, or its wall clock was put forward: the times in beats would be wrong"))
	case regressed:
		p.find(FoundClockBack, "", nil)
		w.end(EndClock, errors.New("the monotonic clock went back"))
	}
	if d := w.clocks.ahead; d > 0 && w.over == nil {
		// It may have been a step. Or the machine was stopped for that long with all its other clocks: then beats would
		// be late for ever, and proofs younger than they are. Counting the time in beats instead would make readers
		// learn the smallest transit anew from a beat that may be late, without a trial.
		w.end(EndClock, fmt.Errorf("the wall clock went ahead by %s: the machine may have been stopped that long", d))
	}
}

// take brings the input into the state.
func (w *Writer) take(at Instant, input Input, p *Plan) {
	switch in := input.(type) {
	case Looked:
		if w.flight == looking {
			w.flight = nothing
			w.looked(at, in, p)
		}
	case LookFailed:
		if w.flight == looking {
			w.flight = nothing
			w.lookFailed(at, in, p)
		}
	case Written:
		w.written(at, in, p)
	case Listed:
		w.listed(at, in, p)
	case Proved:
		w.proved(at, in)
	case SourceFailed:
		w.sourceFailed(at, in)
	case Released:
		w.release(at)
	case Rekeyed:
		w.rekey(in.Keys, p)
	case LeaseLost:
		w.end(EndLeaseLost, errors.New("the lease is lost"))
	case Tick:
	}
}

// next decides what to do when nothing is on its way.
func (w *Writer) next(at Instant, p *Plan) Action {
	switch w.phase {
	case takingOver:
		return w.takeOver(at, p)
	case leading:
		return w.lead(at, p)
	default:
		return w.withdrawAndStop(at)
	}
}

// look asks for a leader-read when one is due.
func (w *Writer) look(at Instant) Action {
	if at.Mono < w.broker.nextLook {
		return nil
	}
	w.flight = looking
	return Look{}
}

// write sends a record and remembers that it is on its way.
func (w *Writer) write(f flight, record []byte) Action {
	w.flight = f
	if f == writingSnapshot {
		return Write{
			Key: SnapshotKey(w.config.GatewayID), Record: record, ExpectSequence: expectation(w.broker.snapshotSequence),
		}
	}
	return Write{
		Key: HeartbeatKey(w.config.GatewayID), Record: record, ExpectSequence: expectation(w.broker.heartbeatSequence),
		TTL: w.config.Settings.HeartbeatTTL.Std(),
	}
}

// pause is the wait before something that did not work is tried again.
func (w *Writer) pause() time.Duration { return w.config.Settings.HeartbeatInterval.Std() / 4 }

// wake is the next instant at which next may have something new to say.
func (w *Writer) wake(at Instant) time.Duration {
	if w.flight != nothing {
		return 0
	}
	var earliest time.Duration
	consider := func(due time.Duration) {
		if due > at.Mono && (earliest == 0 || due < earliest) {
			earliest = due
		}
	}
	s := w.config.Settings
	consider(w.broker.nextLook)
	consider(w.source.nextRelist)
	consider(w.stopAt)
	if w.phase != stopping {
		consider(w.idleAt())
	}
	if w.phase == leading {
		consider(w.lists.gatherUntil)
		consider(w.beats.next)
		if w.source.failing {
			consider(w.source.failingSince + s.FileFailureGrace.Std())
		}
	}
	return earliest
}
