package audit

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

const (
	// window is how many events are sent and not yet acknowledged at most. It hides the round trip: a stream with three
	// replicas and fsync takes 2 ms for each (NATS reference 3.7).
	window = 64
	// firstWait and longestWait bound the pause after a failure.
	firstWait, longestWait = 100 * time.Millisecond, 10 * time.Second
	// logEvery is how often trouble is logged at most.
	logEvery = 10 * time.Second
)

func newBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstWait), backoff.WithMaxInterval(longestWait), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0))
}

// publisher moves events from the queue to the stream. One goroutine owns it.
type publisher struct {
	trail   *Trail
	subject string
	// queue is the trail's; nil once it was found closed and empty.
	queue chan Entry
	// sent are the events that were taken from the queue and are not known to be stored, in order.
	sent []flight
	wait *backoff.ExponentialBackOff
	// warned is when trouble was logged last, told whether its end is still to be logged.
	warned time.Time
	told   bool
}

func (t *Trail) publisher() *publisher {
	return &publisher{trail: t, subject: Subject(t.origin.GatewayID, t.origin.Daemon), queue: t.queue, wait: newBackoff()}
}

// flight is an event on its way.
type flight struct {
	entry Entry
	at    time.Time
}

// run publishes and ends when everything is published after the queue was closed, or when life ends.
func (p *publisher) run(life context.Context, stopping <-chan struct{}) {
	defer p.giveUp()
	for life.Err() == nil {
		session, changed := p.trail.conn.Session()
		var problem *failure
		if session.Connected() {
			problem = p.serve(life, session, changed)
		} else {
			problem = &failure{why: causeDisconnected, text: "no connection"}
			if session.Err != nil {
				problem.text = session.Err.Error()
			}
		}
		if p.finished() {
			return
		}
		if problem == nil {
			continue
		}
		p.failed(problem)
		timer := time.NewTimer(p.wait.NextBackOff())
		select {
		case <-timer.C:
		case <-changed:
		case <-stopping: // once more, at once: there may be no time for another pause
			stopping = nil
		case <-life.Done():
		}
		timer.Stop()
	}
}

func (p *publisher) finished() bool { return p.queue == nil && len(p.sent) == 0 }

// serve publishes over one connection until something fails, the session is over (nil), or nothing is left (nil).
func (p *publisher) serve(life context.Context, session natsconn.Session, changed <-chan struct{}) *failure {
	acks := make(chan *nats.Msg, 2*window)
	inbox := session.NATS.NewInbox()
	sub, err := session.NATS.ChanSubscribe(inbox+".*", acks)
	if err != nil {
		return &failure{why: causeDisconnected, text: "subscribe to acknowledgements: " + err.Error()}
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only with the connection, which ends it too
	if problem := p.resend(session.NATS, inbox); problem != nil {
		return problem
	}
	late := time.NewTicker(p.trail.cfg.AckTimeout.Std() / 4)
	defer late.Stop()
	for !p.finished() {
		queue := p.queue
		if len(p.sent) == window {
			queue = nil
		}
		var problem *failure
		select {
		case e, open := <-queue:
			if !open {
				p.queue = nil
				continue
			}
			p.sent = append(p.sent, flight{entry: e})
			problem = p.send(session.NATS, inbox, len(p.sent)-1)
		case answer := <-acks:
			problem = p.settle(answer)
		case <-late.C:
			problem = p.overdue(time.Now())
		case <-changed:
			return nil
		case <-life.Done():
			return nil
		}
		if problem != nil {
			return problem
		}
	}
	return nil
}

// resend sends again what an earlier attempt left.
func (p *publisher) resend(nc *nats.Conn, inbox string) *failure {
	for i := 0; i < len(p.sent); {
		before := len(p.sent)
		if problem := p.send(nc, inbox, i); problem != nil {
			return problem
		}
		if len(p.sent) == before {
			i++
		}
	}
	return nil
}

// send sends the event at i, or drops it when it alone is at fault.
func (p *publisher) send(nc *nats.Conn, inbox string, i int) *failure {
	f := &p.sent[i]
	f.at = time.Now()
	err := nc.PublishMsg(message(p.subject, inbox+"."+strconv.FormatUint(f.entry.Seq, 10), &f.entry))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		p.refuse(i, &failure{why: causeRefused, alone: true, text: "the server takes no message of this size: " + err.Error()})
		return nil
	default:
		return &failure{why: causeDisconnected, text: "send an event: " + err.Error()}
	}
}

// settle handles an answer.
func (p *publisher) settle(answer *nats.Msg) *failure {
	i := p.find(answer.Subject)
	if i < 0 {
		return nil // a second answer
	}
	switch problem := acknowledged(answer); {
	case problem == nil:
		p.trail.metrics.publish(time.Since(p.sent[i].at))
		p.remove(i)
		p.recovered()
		return nil
	case problem.alone:
		p.refuse(i, problem)
		return nil
	default:
		return problem
	}
}

// find is the index of the event whose answer came on subject, -1 when it is not on its way.
func (p *publisher) find(subject string) int {
	seq, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 64)
	if err != nil {
		return -1
	}
	for i := range p.sent {
		if p.sent[i].entry.Seq == seq {
			return i
		}
	}
	return -1
}

func (p *publisher) remove(i int) { p.sent = append(p.sent[:i], p.sent[i+1:]...) }

// overdue says that an acknowledgement is late.
func (p *publisher) overdue(now time.Time) *failure {
	limit := p.trail.cfg.AckTimeout.Std()
	for i := range p.sent {
		if now.Sub(p.sent[i].at) >= limit {
			return &failure{why: causeUnanswered, text: "no acknowledgement within " + limit.String() +
				": the stream has no leader, or this identity may not publish on " + p.subject}
		}
	}
	return nil
}

// refuse drops an event that no attempt can publish.
func (p *publisher) refuse(i int, problem *failure) {
	p.trail.metrics.failures.WithLabelValues(string(causeRefused)).Inc()
	p.trail.metrics.drop(causeRefused, 1)
	p.trail.log.Warn().Uint64(keySeq, p.sent[i].entry.Seq).Str(telemetry.KeyError, problem.text).Msg("audit event dropped")
	p.remove(i)
}

// failed counts and tells a failure after which the events are kept.
func (p *publisher) failed(problem *failure) {
	p.trail.trouble.Store(problem.why)
	waiting := len(p.sent) + len(p.queue)
	if waiting == 0 {
		return // nothing has failed yet: the connection is late
	}
	p.trail.metrics.failures.WithLabelValues(string(problem.why)).Inc()
	if now := time.Now(); p.warned.IsZero() || now.Sub(p.warned) >= logEvery {
		p.warned, p.told = now, true
		p.trail.log.Warn().Str(telemetry.KeyCause, string(problem.why)).Str(telemetry.KeyError, problem.text).
			Int(telemetry.KeyCount, waiting).Msg("audit events cannot be published; they are kept while there is room")
	}
}

func (p *publisher) recovered() {
	p.wait.Reset()
	p.trail.trouble.Store(noTrouble)
	if p.told {
		p.told = false
		p.trail.log.Info().Msg("audit events are published again")
	}
}

// giveUp counts what is left when the trail stops.
func (p *publisher) giveUp() {
	left := len(p.sent)
	for p.queue != nil {
		if _, open := <-p.queue; !open { // closed: only a stop ends run
			break
		}
		left++
	}
	if left == 0 {
		return
	}
	p.trail.metrics.drop(causeStopped, left)
	p.trail.log.Warn().Int(telemetry.KeyCount, left).Msg("stopped before all audit events were acknowledged")
}
