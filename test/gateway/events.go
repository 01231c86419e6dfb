package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// Kind is what an event is about.
type Kind string

// The kinds. Those without a sandbox are about the gateway itself.
const (
	Connected        Kind = "Connected"        // the handshake is done; Message is the driver's name
	WatchOpened      Kind = "WatchOpened"      // a stream was asked for
	WatchEnded       Kind = "WatchEnded"       // it ended; Message says why
	Swept            Kind = "Swept"            // a sweep ended; Message is its error
	WorkspaceEnsured Kind = "WorkspaceEnsured" // Workspace says which
	WorkspaceDeleted Kind = "WorkspaceDeleted" // by the driver too

	Created              Kind = "Created"              // the row was written; To is its phase
	PhaseChanged         Kind = "PhaseChanged"         // From, To, Reason, Message
	StatusChanged        Kind = "StatusChanged"        // the same phase, another Reason or Message
	Bound                Kind = "Bound"                // the runtime identity was stored; Message is it
	Removed              Kind = "Removed"              // the row is gone; From is its last phase
	Platform             Kind = "Platform"             // of the driver; Platform holds it
	Ignored              Kind = "Ignored"              // what the driver told changes nothing; Reason says why
	TokenIssued          Kind = "TokenIssued"          // to the supervisor
	TokenRefused         Kind = "TokenRefused"         // Reason is the code
	SessionOpened        Kind = "SessionOpened"        // the supervisor's
	SessionConfirmed     Kind = "SessionConfirmed"     // it holds a runtime
	SessionEnded         Kind = "SessionEnded"         // and this is over
	MainProcessExited    Kind = "MainProcessExited"    // Message is how
	Reclaimed            Kind = "Reclaimed"            // a timed out sandbox was stopped
	ReclaimFailed        Kind = "ReclaimFailed"        // Message is why; it goes on
	ReleaseFailed        Kind = "ReleaseFailed"        // a DeleteSandbox that nobody waits for; Message is why
	CompensationFailed   Kind = "CompensationFailed"   // of a create or start; Message is why
	RecoveryAsked        Kind = "RecoveryAsked"        // behind a failed call; Reason is what the driver shows
	StartRecoveryRefused Kind = "StartRecoveryRefused" // the row waits for a user (contract 2.6)
)

// Event is something that happened. Events come in the order of the writes behind them.
type Event struct {
	At                         time.Time
	Kind                       Kind
	SandboxID, Workspace, Name string
	From, To                   phase.Phase
	Reason, Message            string
	Platform                   *computev1.DriverPlatformEvent
}

// String is the event on one line, for a timeline.
func (e Event) String() string {
	words := []string{e.At.Format("15:04:05.000"), fmt.Sprintf("%-17s", e.Kind)}
	if who := strings.Trim(e.Workspace+"/"+e.Name, "/"); who != "" {
		words = append(words, who)
	}
	if e.From != e.To {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s -> %s", e.From, e.To)))
	}
	for _, word := range []string{e.Reason, e.Message} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, "  ")
}

// Subscription receives every event from its beginning on.
type Subscription struct {
	hub  *hub
	news chan struct{} // holds a value when there may be something new

	mu    sync.Mutex
	queue []Event
}

// Subscribe begins a subscription. It must be closed.
func (g *Gateway) Subscribe() *Subscription { return g.events.subscribe() }

// Next returns the next event; it waits for one. The error is ctx's.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			e := s.queue[0]
			s.queue = s.queue[1:]
			s.mu.Unlock()
			return e, nil
		}
		s.mu.Unlock()
		select {
		case <-s.news:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// Await returns the next event that fits and drops those before it.
func (s *Subscription) Await(ctx context.Context, fits func(Event) bool) (Event, error) {
	for {
		e, err := s.Next(ctx)
		if err != nil || fits(e) {
			return e, err
		}
	}
}

// Close ends the subscription.
func (s *Subscription) Close() { s.hub.drop(s) }

// hub gives events to subscriptions. Nobody waits for a slow one: its queue grows.
type hub struct {
	mu  sync.Mutex
	all []*Subscription
}

func newHub() *hub { return &hub{} }

func (h *hub) subscribe() *Subscription {
	s := &Subscription{hub: h, news: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, s)
	return s
}

func (h *hub) drop(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = slices.DeleteFunc(h.all, func(one *Subscription) bool { return one == s })
}

func (h *hub) publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.all {
		s.mu.Lock()
		s.queue = append(s.queue, e)
		s.mu.Unlock()
		select {
		case s.news <- struct{}{}:
		default:
		}
	}
}

// emit publishes an event, at the present time, and logs it.
func (g *Gateway) emit(e Event) {
	e.At = g.config.Clock.Now()
	if e.Platform != nil {
		e.Platform = proto.CloneOf(e.Platform)
	}
	line := g.config.Log.Info().Str("event", string(e.Kind))
	for key, value := range map[string]string{
		"sandbox": e.SandboxID, "workspace": e.Workspace, "name": e.Name, "from": string(e.From), "to": string(e.To), "reason": e.Reason,
	} {
		if value != "" {
			line = line.Str(key, value)
		}
	}
	line.Msg(e.Message)
	g.events.publish(e)
}

// about makes an event about a row.
func about(row record.Row, kind Kind, reason, message string) Event {
	return Event{Kind: kind, SandboxID: row.ID, Workspace: row.Workspace, Name: row.Name, Reason: reason, Message: message}
}

// Await waits until the sandbox is as it should be, and returns it as it last was. The error is NOT_FOUND when there is no row,
// or ctx's.
func (g *Gateway) Await(ctx context.Context, id string, enough func(Sandbox) bool) (last Sandbox, err error) {
	err = g.await(ctx, id, func(s Sandbox) (bool, error) {
		last = s
		return enough(s), nil
	})
	return last, err
}

// AwaitPhase waits until the sandbox is in one of the phases. It gives up with FAILED_PRECONDITION when it is in Error and that is
// not wanted, and with NOT_FOUND when there is no row.
func (g *Gateway) AwaitPhase(ctx context.Context, id string, wanted ...phase.Phase) (Sandbox, error) {
	var last Sandbox
	err := g.await(ctx, id, func(s Sandbox) (bool, error) {
		last = s
		if s.Phase == phase.Error && !slices.Contains(wanted, phase.Error) {
			return false, status.Errorf(codes.FailedPrecondition, "sandbox %s/%s failed: %s: %s", s.Workspace, s.Name, s.Cause, s.Message)
		}
		return slices.Contains(wanted, s.Phase), nil
	})
	if err != nil && ctx.Err() != nil {
		err = status.Errorf(codes.DeadlineExceeded, "sandbox %s/%s is %s, not %v: %v: %v", last.Workspace, last.Name, last.Phase, wanted, last.Conditions, err)
	}
	return last, err
}

// AwaitRemoved waits until the sandbox has no row.
func (g *Gateway) AwaitRemoved(ctx context.Context, id string) error {
	_, err := g.Await(ctx, id, func(Sandbox) bool { return false })
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

func (g *Gateway) await(ctx context.Context, id string, enough func(Sandbox) (bool, error)) error {
	events := g.Subscribe()
	defer events.Close()
	for {
		s, err := g.Get(id)
		if err != nil {
			return err
		}
		if done, err := enough(s); done || err != nil {
			return err
		}
		if _, err := events.Await(ctx, func(e Event) bool { return e.SandboxID == id }); err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}
