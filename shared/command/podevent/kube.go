package podevent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// New tells about the Pod as the daemon, and reaches the API server as cfg says.
func New(pod Pod, daemonName string, cfg kubeclient.Config, log zerolog.Logger) *Announcer {
	return newAnnouncer(&kube{pod: pod, daemon: daemonName, cfg: cfg, counts: map[string]int32{}}, log)
}

// kube writes Events of a Pod to the API server. It keeps no connection and no credentials: it is used rarely, often while files are wrong,
// and each write takes them as they are then. Not safe for concurrent use.
type kube struct {
	pod    Pod
	daemon string
	cfg    kubeclient.Config
	counts map[string]int32 // how often what was told, by the name of its Event
}

func (k *kube) write(ctx context.Context, n notice, now time.Time) error {
	clients, err := kubeclient.New(k.cfg, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	defer clients.CloseIdle()
	event := k.event(n, now)
	written, err := k.put(ctx, clients.Calls.Typed.CoreV1().Events(k.pod.Namespace), event)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: grant create and patch on events in the Pod's namespace", pemfile.OneLine(err))
	case err != nil:
		return fmt.Errorf("write Event %s: %w", event.Name, pemfile.OneLine(err))
	}
	k.counts[event.Name] = written.Count
	return nil
}

// put makes the Event, or counts it at the one of its name.
func (k *kube) put(ctx context.Context, events typedv1.EventInterface, event *corev1.Event) (*corev1.Event, error) {
	count := k.counts[event.Name]
	if count > 0 {
		written, err := patch(ctx, events, event, count+1)
		if !apierrors.IsNotFound(err) { // the API server keeps Events for an hour or so
			return written, err
		}
	}
	written, err := events.Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // a former process in this Pod told the same, who knows how often
		return patch(ctx, events, event, 0)
	}
	return written, err
}

// patch brings an Event up to date; count 0 leaves the count as it is.
func patch(ctx context.Context, events typedv1.EventInterface, event *corev1.Event, count int32) (*corev1.Event, error) {
	text, err := json.Marshal(struct {
		Message       string      `json:"message"`
		LastTimestamp metav1.Time `json:"lastTimestamp"`
		Count         int32       `json:"count,omitempty"`
	}{event.Message, event.LastTimestamp, count})
	if err != nil {
		return nil, err
	}
	return events.Patch(ctx, event.Name, types.MergePatchType, text, metav1.PatchOptions{})
}

func (k *kube) event(n notice, now time.Time) *corev1.Event {
	kind := corev1.EventTypeWarning
	if n.reason == reasonReady {
		kind = corev1.EventTypeNormal
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: k.pod.Namespace, Name: nameOf(k.pod, k.daemon, n.reason)},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: k.pod.Namespace, Name: k.pod.Name, UID: types.UID(k.pod.UID)},
		Type:           kind, Reason: n.reason, Message: n.message,
		FirstTimestamp: metav1.NewTime(n.since), LastTimestamp: metav1.NewTime(now), Count: 1,
		Source:              corev1.EventSource{Component: k.daemon},
		ReportingController: "portcullis/" + k.daemon, ReportingInstance: k.pod.Name,
	}
}

// nameOf is one name per Pod, daemon in it and reason.
func nameOf(pod Pod, daemonName, reason string) string {
	sum := sha256.Sum256([]byte(pod.UID + "\x00" + daemonName + "\x00" + reason))
	suffix := "." + hex.EncodeToString(sum[:8])
	return pod.Name[:min(len(pod.Name), longest-len(suffix))] + suffix
}
