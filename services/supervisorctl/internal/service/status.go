package service

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// statusOf describes the set of a Sandbox as it was seen. Another Sandbox of that name, which has taken its place, is none.
func statusOf(ref plan.Ref, f *plan.Facts) *supervisorv1.CompanionStatus {
	box, ok := f.Sandbox.Value()
	if ok && box.UID != ref.UID {
		ok = false
	}
	var record runstate.Record
	var err error
	if ok {
		record, err = runstate.Of(box.Annotations)
	}
	s := &supervisorv1.CompanionStatus{Conditions: conditions(ref, f, &record)}
	if !ok {
		if _, replaced := f.Sandbox.Value(); (replaced || f.Sandbox.Absent()) && nothing(f) {
			s.Phase = supervisorv1.Phase_PHASE_ABSENT
		}
		return s
	}
	s.SandboxGeneration = box.Generation
	s.Identity = &supervisorv1.RuntimeIdentity{Namespace: box.Namespace, SandboxUid: box.UID}
	if pod, ok := f.Supervisor.Value(); ok && pod.Ownership != plan.Theirs {
		s.Identity.SupervisorUid = pod.UID
	}
	if pod, ok := f.Workload.Value(); ok && pod.Ownership != plan.Theirs {
		s.Identity.WorkloadUid = pod.UID
	}
	if err != nil {
		return s // phase and readiness are unknown
	}
	s.Phase, s.Readiness = phaseOf(f, &box, record), readinessOf(record)
	if record.Generation != "" {
		s.Run = &supervisorv1.Run{GenerationId: record.Generation, SessionId: record.Session, AuthEpoch: uint64(max(record.Epoch, 0))}
	}
	if record.Bootstrapping && record.StartedAt > 0 {
		s.BootstrapStartedAt = timestamppb.New(record.Began())
	}
	return s
}

// released is the identity of the run that the record says was released.
func released(f *plan.Facts) *supervisorv1.RuntimeIdentity {
	box, _ := f.Sandbox.Value()
	record, err := runstate.Of(box.Annotations)
	if err != nil {
		return nil
	}
	return &supervisorv1.RuntimeIdentity{
		Namespace: box.Namespace, SandboxUid: box.UID, SupervisorUid: record.SupervisorUID, WorkloadUid: record.WorkloadUID,
	}
}

func complete(id *supervisorv1.RuntimeIdentity) bool {
	return id.GetNamespace() != "" && id.GetSandboxUid() != "" && id.GetSupervisorUid() != "" && id.GetWorkloadUid() != ""
}

// nothing reports whether it is known that no companion is there.
func nothing(f *plan.Facts) bool {
	return gone(f.Supervisor, func(p plan.Pod) bool { return p.Ownership == plan.Theirs }) &&
		gone(f.Workload, func(p plan.Pod) bool { return p.Ownership == plan.Theirs }) &&
		gone(f.Service, func(s plan.Service) bool { return s.Ownership == plan.Theirs || s.Deleting })
}

func gone[T any](k plan.Known[T], not func(T) bool) bool {
	found, ok := k.Value()
	return k.Absent() || ok && not(found)
}

func phaseOf(f *plan.Facts, box *sandboxapi.Object, r runstate.Record) supervisorv1.Phase {
	switch r.Phase {
	case runstate.Preparing:
		return supervisorv1.Phase_PHASE_PREPARING
	case runstate.Released:
		return supervisorv1.Phase_PHASE_RELEASED
	case runstate.Releasing:
		return supervisorv1.Phase_PHASE_RELEASING
	case runstate.Suspending:
		return supervisorv1.Phase_PHASE_SUSPENDING
	}
	switch {
	case box.Mode == sandboxapi.Running:
		return supervisorv1.Phase_PHASE_RUNNING
	case nothing(f):
		return supervisorv1.Phase_PHASE_ABSENT
	}
	return supervisorv1.Phase_PHASE_SUSPENDED
}

func readinessOf(r runstate.Record) supervisorv1.Readiness {
	switch r.Readiness {
	case runstate.Ready:
		return supervisorv1.Readiness_READINESS_READY
	case runstate.Unavailable:
		return supervisorv1.Readiness_READINESS_UNAVAILABLE
	}
	return supervisorv1.Readiness_READINESS_UNSPECIFIED
}
