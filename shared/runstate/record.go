package runstate

import (
	"fmt"
	"strconv"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Operation is what is under way. The zero Operation is nothing.
type Operation string

// The operations of contract 4.4.
const (
	Create  Operation = workspace.OperationCreate
	Restart Operation = workspace.OperationRestart
	Stop    Operation = workspace.OperationStop
)

// Phase is how far an operation has come. The zero Phase is that of no operation.
type Phase string

// The phases of contract 4.4, in the order in which a run passes through them.
const (
	// Preparing: the workload may not run yet.
	Preparing Phase = workspace.PhasePreparing
	// Released: the gates of both Pods are lifted, and readiness is awaited.
	Released Phase = workspace.PhaseReleased
	// Releasing: the supervisor is going.
	Releasing Phase = workspace.PhaseReleasing
	// Suspending: the supervisor is gone, and the workload is going.
	Suspending Phase = workspace.PhaseSuspending
)

// Readiness is what was last published about the run. The zero Readiness is that nothing was.
type Readiness string

// The values of contract 4.4.
const (
	Ready       Readiness = workspace.ReadinessReady
	Unavailable Readiness = workspace.ReadinessUnavailable
)

// Record is the record of a run. Its values are comparable.
type Record struct {
	// Bootstrapping is true from the begin of a create or restart to its completion.
	Bootstrapping bool
	// StartedAt is when the create or restart began, in whole milliseconds since 1970; zero when it is not recorded.
	StartedAt int64
	Operation Operation
	Phase     Phase
	// Session, Epoch and Generation name the run (contract 2.6); Epoch is zero in the record of a stock driver.
	Session, Generation string
	Epoch               int64
	// Attempt names who is at it, one call to one process.
	Attempt   string
	Readiness Readiness
	// WorkloadUID and SupervisorUID are the Pods of the run.
	WorkloadUID, SupervisorUID string
	// FenceUID and FenceGeneration are those of the workload fence that the run was released behind.
	FenceUID        string
	FenceGeneration int64
	// MainProcess and LogLevel are kept for restarts: JSON, and a word.
	MainProcess, LogLevel string
	// Secrets are the names and the uids of the Secrets of a released run, as whoever made them writes them; empty when it is not known.
	Secrets string
	// FenceEvidence is what a run was released behind, as package fenceevidence writes it; empty when it is not known.
	FenceEvidence string
	// StopReason and StopExplanation say why the reconcile loop ended the run: a stable code, and text for people. They stay until
	// another run is begun.
	StopReason, StopExplanation string
}

// Keys of the annotations that no stock driver writes, beside those of package workspace. One that stops the sandbox clears them with
// all others of their prefix (contract 7.10).
const (
	AnnotationSecrets         = "openshell.ai/sandbox-runtime-secrets"
	AnnotationFenceEvidence   = "openshell.ai/sandbox-runtime-fence-evidence"
	AnnotationStopReason      = "openshell.ai/sandbox-runtime-stop-reason"
	AnnotationStopExplanation = "openshell.ai/sandbox-runtime-stop-explanation"
)

// Began is StartedAt as a time; the zero time when it is not recorded.
func (r Record) Began() time.Time {
	if r.StartedAt == 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.StartedAt)
}

// Stopping reports whether a stop has begun and is not complete.
func (r Record) Stopping() bool { return r.Phase == Releasing || r.Phase == Suspending }

// field is one annotation of the record.
type field struct {
	key string
	get func(*Record) string
	// set reports whether text is a value of the field.
	set func(r *Record, text string) bool
}

// fields are all of them. It is never written to.
var fields = [...]field{
	{workspace.AnnotationBootstrapping, func(r *Record) string {
		if r.Bootstrapping {
			return workspace.True
		}
		return ""
	}, func(r *Record, text string) bool {
		r.Bootstrapping = text == workspace.True
		return text == workspace.True || text == workspace.False
	}},
	number(workspace.AnnotationBootstrapStartedAt, func(r *Record) *int64 { return &r.StartedAt }),
	word(workspace.AnnotationBootstrapOperation, func(r *Record) *Operation { return &r.Operation }, Create, Restart, Stop),
	word(workspace.AnnotationBootstrapPhase, func(r *Record) *Phase { return &r.Phase }, Preparing, Released, Releasing, Suspending),
	text(workspace.AnnotationBootstrapSession, func(r *Record) *string { return &r.Session }),
	number(workspace.AnnotationBootstrapEpoch, func(r *Record) *int64 { return &r.Epoch }),
	text(workspace.AnnotationBootstrapAttempt, func(r *Record) *string { return &r.Attempt }),
	text(workspace.AnnotationGeneration, func(r *Record) *string { return &r.Generation }),
	word(workspace.AnnotationReadiness, func(r *Record) *Readiness { return &r.Readiness }, Ready, Unavailable),
	text(workspace.AnnotationWorkloadUID, func(r *Record) *string { return &r.WorkloadUID }),
	text(workspace.AnnotationSupervisorUID, func(r *Record) *string { return &r.SupervisorUID }),
	text(workspace.AnnotationFenceUID, func(r *Record) *string { return &r.FenceUID }),
	number(workspace.AnnotationFenceGeneration, func(r *Record) *int64 { return &r.FenceGeneration }),
	text(workspace.AnnotationMainProcessSpec, func(r *Record) *string { return &r.MainProcess }),
	text(workspace.AnnotationLogLevel, func(r *Record) *string { return &r.LogLevel }),
	text(AnnotationSecrets, func(r *Record) *string { return &r.Secrets }),
	text(AnnotationFenceEvidence, func(r *Record) *string { return &r.FenceEvidence }),
	text(AnnotationStopReason, func(r *Record) *string { return &r.StopReason }),
	text(AnnotationStopExplanation, func(r *Record) *string { return &r.StopExplanation }),
}

func text(key string, at func(*Record) *string) field {
	return field{key, func(r *Record) string { return *at(r) }, func(r *Record, text string) bool {
		*at(r) = text
		return true
	}}
}

func number(key string, at func(*Record) *int64) field {
	return field{key, func(r *Record) string {
		if *at(r) == 0 {
			return ""
		}
		return strconv.FormatInt(*at(r), 10)
	}, func(r *Record, text string) bool {
		n, err := strconv.ParseInt(text, 10, 64)
		*at(r) = n
		return err == nil && n > 0 && strconv.FormatInt(n, 10) == text
	}}
}

func word[T ~string](key string, at func(*Record) *T, known ...T) field {
	return field{key, func(r *Record) string { return string(*at(r)) }, func(r *Record, text string) bool {
		for _, k := range known {
			if text == string(k) {
				*at(r) = k
				return true
			}
		}
		return false
	}}
}

// Of reads the record from a Sandbox's annotations. A key that is missing, or there with an empty value, leaves its field zero.
// An error names the annotation whose value is none of contract 4.4, or says which two contradict each other; the Record is then
// zero. A phase or a bootstrap without an operation, and an operation without a phase, contradict.
func Of(annotations map[string]string) (Record, error) {
	var r Record
	for _, f := range fields {
		value := annotations[f.key]
		if value == "" {
			continue
		}
		if !f.set(&r, value) {
			return Record{}, fmt.Errorf("the Sandbox's annotation %s is %.64q, which is no value of it", f.key, value)
		}
	}
	if problem := r.contradiction(); problem != "" {
		return Record{}, fmt.Errorf("the Sandbox's annotations contradict each other: %s", problem)
	}
	return r, nil
}

// contradiction says what about r no operation of ours leaves behind; empty when nothing does.
func (r Record) contradiction() string {
	starting := r.Operation == Create || r.Operation == Restart
	switch {
	case (r.Operation == "") != (r.Phase == ""):
		return fmt.Sprintf("operation %q with phase %q", r.Operation, r.Phase)
	case r.Bootstrapping && r.Operation == "":
		return "bootstrapping without an operation"
	case starting && (r.Phase == Releasing || r.Phase == Suspending):
		return fmt.Sprintf("operation %q with phase %q, which is one of a stop", r.Operation, r.Phase)
	case r.Operation == Stop && (r.Phase == Preparing || r.Phase == Released):
		return fmt.Sprintf("operation %q with phase %q, which is one of a start", r.Operation, r.Phase)
	case (r.FenceUID == "") != (r.FenceGeneration == 0):
		return "a fence's uid without its generation, or the other way round"
	}
	return ""
}

// Annotations is the record as annotations, without the keys of zero fields.
func (r Record) Annotations() map[string]string {
	out := make(map[string]string, len(fields))
	for _, f := range fields {
		if value := f.get(&r); value != "" {
			out[f.key] = value
		}
	}
	return out
}

// Patch is what makes one record out of another: the keys that differ with their new values, as the annotations of a JSON merge
// patch; nil takes a key away. Empty when the two are the same.
func Patch(from, to Record) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		before, after := f.get(&from), f.get(&to)
		switch {
		case before == after:
		case after == "":
			out[f.key] = nil
		default:
			out[f.key] = after
		}
	}
	return out
}

// Stopped is the record after a stop (contract 7.10): nothing of the run is left. What a restart needs is kept, and why the run was
// ended.
func (r Record) Stopped() Record {
	return Record{
		Readiness: Unavailable, MainProcess: r.MainProcess, LogLevel: r.LogLevel, StopReason: r.StopReason, StopExplanation: r.StopExplanation,
	}
}
