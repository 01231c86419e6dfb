package progress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
)

// ErrMalformed says that an event is about nothing, or cannot be told from others.
var ErrMalformed = errors.New("the event does not say what it is about")

// Object is what an event is about. UID may be empty.
type Object struct {
	Kind, Namespace, Name, UID string
}

// Kinds of objects that have events of ours.
const (
	KindPod     = "Pod"
	KindSandbox = "Sandbox"
)

// Event is what is kept of a cluster's event. Make it with Read.
type Event struct {
	UID   string
	About Object
	// Type is Normal or Warning.
	Type, Reason, Message string
	// Count is how often it has happened, at least once.
	Count int32
	// At is when it happened last; zero when it does not say.
	At time.Time
}

// Limits of the texts of an event, in bytes. The API server's are the same or higher.
const (
	longestName    = 253
	longestReason  = 128
	longestMessage = 1024
)

// Read takes what is kept of an event; nothing of e is shared. The error is ErrMalformed.
func Read(e *corev1.Event) (Event, error) {
	about := &e.InvolvedObject
	if e.UID == "" || about.Kind == "" || about.Name == "" {
		return Event{}, fmt.Errorf("the event %s/%s is passed over: %w", e.Namespace, e.Name, ErrMalformed)
	}
	out := Event{
		UID: strings.Clone(string(e.UID)),
		About: Object{
			Kind: excerpt.Line(about.Kind, longestReason), Namespace: excerpt.Line(about.Namespace, longestName), Name: excerpt.Line(about.Name, longestName), UID: excerpt.Line(string(about.UID), longestReason),
		},
		Type: excerpt.Line(e.Type, longestReason), Reason: excerpt.Line(e.Reason, longestReason), Message: excerpt.Line(e.Message, longestMessage),
		Count: max(e.Count, 1), At: at(e),
	}
	if out.About.Namespace == "" {
		out.About.Namespace = excerpt.Line(e.Namespace, longestName)
	}
	if e.Series != nil {
		out.Count = max(out.Count, e.Series.Count)
	}
	return out, nil
}

// at is when the event happened last: by lastTimestamp, else by firstTimestamp (contract 10). An event of the newer API has neither,
// and says it elsewhere.
func at(e *corev1.Event) time.Time {
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.Time
	}
	if !e.FirstTimestamp.IsZero() {
		return e.FirstTimestamp.Time
	}
	return e.EventTime.Time
}

// Warning reports whether something is wrong.
func (e *Event) Warning() bool { return e.Type == corev1.EventTypeWarning }

// Role is which part of a sandbox an event is about. The zero Role moves no progress display.
type Role uint8

// The roles.
const (
	// Other is the Sandbox, or the supervisor Pod.
	Other Role = iota
	// Workload is the workload Pod.
	Workload
)

// Render makes what the gateway is told (contract 10). The result is the caller's own.
func (e *Event) Render(role Role) *computev1.DriverPlatformEvent {
	metadata := map[string]string{
		"involved_kind": e.About.Kind, "involved_name": e.About.Name, "namespace": e.About.Namespace, "count": strconv.Itoa(int(e.Count)),
	}
	if role == Workload {
		steps(e, metadata)
	}
	// A time that cannot be sent, and none, is the epoch (contract 10).
	when := &timestamppb.Timestamp{}
	if !e.At.IsZero() && e.At.Year() >= 1970 && e.At.Year() < 10000 {
		when = timestamppb.New(e.At.Truncate(time.Microsecond))
	}
	return &computev1.DriverPlatformEvent{
		Source: "kubernetes", Type: e.Type, Reason: e.Reason, Message: e.Message, Metadata: metadata, EventTime: when,
	}
}
