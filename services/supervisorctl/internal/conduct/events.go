package conduct

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

const (
	// component is who Events are from.
	component = "supervisorctl"
	// eventRate and eventBurst bound all Events of a process, mostWaiting those that wait to be sent, and mostTold those of which is known
	// that they were told. What finds no room is dropped, and told when it is seen again.
	eventRate, eventBurst = 5, 50
	mostWaiting           = 256
	mostTold              = 1 << 14
	// toldFor is how long the same is not told again: half of the time for which an API server keeps Events by default.
	toldFor = 30 * time.Minute
	// deniedFor is for how long nothing is sent after the API server has said that we may not.
	deniedFor = 10 * time.Minute
	// longestEvent is what the API server takes.
	longestEvent = 1024
)

// announcer writes Events on Sandboxes, as well as it can: it never makes anybody wait, and what cannot be written is lost. Only what the
// API server took counts as told. Make it with newAnnouncer; run sends. Safe for concurrent use.
type announcer struct {
	cluster    Cluster
	log        zerolog.Logger
	metrics    *metrics
	instance   string
	correlator *record.EventCorrelator
	limit      flowcontrol.PassiveRateLimiter
	queue      chan notice

	mu     sync.Mutex
	told   tellings
	denied time.Time // until when nothing is sent
}

// notice is an Event that waits to be sent, with what of it is remembered.
type notice struct {
	event *corev1.Event
	subject
}

func newAnnouncer(c Cluster, log zerolog.Logger, m *metrics, instance string) *announcer {
	return &announcer{
		cluster: c, log: log, metrics: m, instance: instance, told: newTellings(mostTold), queue: make(chan notice, mostWaiting),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{}),
		limit:      flowcontrol.NewTokenBucketPassiveRateLimiter(eventRate, eventBurst),
	}
}

// announce has an Event written, unless the same is known or on its way.
func (a *announcer) announce(ref plan.Ref, version sandboxapi.Version, t *tiding) {
	if ref.UID == "" {
		return
	}
	now, about := time.Now(), t.subject(ref.UID)
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.denied) || !a.told.news(about, now) {
		return
	}
	select {
	case a.queue <- notice{a.event(ref, version, t, now), about}:
		a.told.queued(about, now)
	default:
		a.metrics.events.WithLabelValues(eventDropped).Inc()
	}
}

func (a *announcer) event(ref plan.Ref, version sandboxapi.Version, t *tiding, now time.Time) *corev1.Event {
	if !version.Known() {
		version = sandboxapi.V1beta1
	}
	message := t.message
	if len(message) > longestEvent {
		message = message[:longestEvent]
	}
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: fmt.Sprintf("%s.%x", ref.Name, now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: version.APIVersion(), Kind: sandboxapi.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: types.UID(ref.UID),
		},
		Type: t.kind, Reason: t.reason, Message: strings.ToValidUTF8(message, ""),
		FirstTimestamp: at, LastTimestamp: at, Count: 1, Source: corev1.EventSource{Component: component},
		ReportingController: "portcullis/" + component, ReportingInstance: a.instance,
	}
}

// run sends what waits, one after another, until ctx ends. What waits then is dropped.
func (a *announcer) run(ctx context.Context) {
	defer a.drop()
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-a.queue:
			if a.wait(ctx) != nil {
				a.ended(&n, eventDropped)
				return
			}
			a.ended(&n, a.send(ctx, n.event))
		}
	}
}

// wait keeps the rate.
func (a *announcer) wait(ctx context.Context) error {
	for !a.limit.TryAccept() {
		if !sleep(ctx, time.Second/eventRate) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// drop forgets all that waits.
func (a *announcer) drop() {
	for {
		select {
		case n := <-a.queue:
			a.ended(&n, eventDropped)
		default:
			return
		}
	}
}

// ended counts what became of an Event. Only one that was sent is told.
func (a *announcer) ended(n *notice, result string) {
	a.metrics.events.WithLabelValues(result).Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told.ended(n.subject, result == eventSent, time.Now())
}

// send writes one Event, or counts it at one that is like it, and says what became of it.
func (a *announcer) send(ctx context.Context, e *corev1.Event) (result string) {
	correlated, err := a.correlator.EventCorrelate(e)
	if err != nil || correlated.Skip {
		return eventDropped
	}
	written, err := a.deliver(ctx, correlated)
	if err == nil {
		a.correlator.UpdateState(written)
		return eventSent
	}
	if errors.Is(err, cluster.ErrRefused) && strings.Contains(err.Error(), ` resource "events"`) { // not that of one namespace that is ending
		a.mu.Lock()
		a.denied = time.Now().Add(deniedFor)
		a.mu.Unlock()
		a.drop()
		a.log.Warn().Err(err).Dur("pause", deniedFor).Msg("Events on Sandboxes cannot be written; grant create and patch on events")
		return eventFailed
	}
	a.log.Debug().Err(err).Str(keyReason, e.Reason).Msg("an Event was lost")
	return eventFailed
}

func (a *announcer) deliver(ctx context.Context, result *record.EventCorrelateResult) (*corev1.Event, error) {
	e := result.Event
	if e.Count > 1 {
		written, err := a.cluster.CountEvent(ctx, e.Namespace, e.Name, result.Patch)
		if err == nil || !errors.Is(err, cluster.ErrAbsent) {
			return written, err
		}
	}
	e = e.DeepCopy()
	e.ResourceVersion = ""
	return a.cluster.CreateEvent(ctx, e)
}
