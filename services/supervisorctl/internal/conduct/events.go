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
	// that they were told. What is beyond is dropped, and told when it is seen again.
	eventRate, eventBurst = 5, 50
	mostWaiting           = 256
	mostTold              = 4096
	// toldFor is how long the same is not told again: half of the time for which an API server keeps Events by default.
	toldFor = 30 * time.Minute
	// deniedFor is for how long nothing is sent after the API server has said that we may not.
	deniedFor = 10 * time.Minute
	// longestEvent is what the API server takes.
	longestEvent = 1024
)

// announcer writes Events on Sandboxes, as well as it can: it never makes anybody wait, and what cannot be written is lost. It has no
// goroutine but while there is something to send. Safe for concurrent use.
type announcer struct {
	cluster    Cluster
	log        zerolog.Logger
	metrics    *metrics
	instance   string
	correlator *record.EventCorrelator
	limit      flowcontrol.PassiveRateLimiter

	mu      sync.Mutex
	told    map[string]time.Time
	waiting []*corev1.Event
	sending bool
	denied  time.Time // until when nothing is sent
}

func newAnnouncer(c Cluster, log zerolog.Logger, m *metrics, instance string) *announcer {
	return &announcer{
		cluster: c, log: log, metrics: m, instance: instance, told: map[string]time.Time{},
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{}),
		limit:      flowcontrol.NewTokenBucketPassiveRateLimiter(eventRate, eventBurst),
	}
}

// announce has an Event written, unless the same was lately. ctx gives its values, and not its end.
func (a *announcer) announce(ctx context.Context, ref plan.Ref, version sandboxapi.Version, t tiding) {
	if ref.UID == "" {
		return
	}
	now, key := time.Now(), ref.UID+"/"+t.reason+"/"+t.message
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.told[key]; ok && now.Sub(at) < toldFor || now.Before(a.denied) {
		return
	}
	if len(a.waiting) >= mostWaiting || !a.limit.TryAccept() {
		a.metrics.events.WithLabelValues(eventDropped).Inc()
		return
	}
	if len(a.told) >= mostTold {
		for other := range a.told {
			delete(a.told, other)
			break
		}
	}
	a.told[key] = now
	a.waiting = append(a.waiting, a.event(ref, version, t, now))
	if !a.sending {
		a.sending = true
		go a.send(context.WithoutCancel(ctx))
	}
}

func (a *announcer) event(ref plan.Ref, version sandboxapi.Version, t tiding, now time.Time) *corev1.Event {
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

// send writes what waits, and ends when nothing does.
func (a *announcer) send(ctx context.Context) {
	for {
		a.mu.Lock()
		if len(a.waiting) == 0 {
			a.sending = false
			a.mu.Unlock()
			return
		}
		next := a.waiting[0]
		a.waiting = a.waiting[1:]
		a.mu.Unlock()
		a.write(ctx, next)
	}
}

// write sends one Event, or counts it at one that is like it.
func (a *announcer) write(ctx context.Context, e *corev1.Event) {
	result, err := a.correlator.EventCorrelate(e)
	if err != nil || result.Skip {
		a.metrics.events.WithLabelValues(eventDropped).Inc()
		return
	}
	written, err := a.deliver(ctx, result)
	if err == nil {
		a.correlator.UpdateState(written)
		a.metrics.events.WithLabelValues(eventSent).Inc()
		return
	}
	a.metrics.events.WithLabelValues(eventFailed).Inc()
	if errors.Is(err, cluster.ErrRefused) && strings.Contains(err.Error(), ` resource "events"`) { // not that of one namespace that is ending
		a.mu.Lock()
		a.denied = time.Now().Add(deniedFor)
		lost := len(a.waiting)
		a.waiting = nil
		a.mu.Unlock()
		a.metrics.events.WithLabelValues(eventDropped).Add(float64(lost))
		a.log.Warn().Err(err).Dur("pause", deniedFor).Msg("Events on Sandboxes cannot be written; grant create and patch on events")
		return
	}
	a.log.Debug().Err(err).Str(keyReason, e.Reason).Msg("an Event was lost")
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
