package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/rejection"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Conductor works on goals; *conduct.Conductor is one.
type Conductor interface {
	Expect(ref plan.Ref) (forget func())
	Leads() bool
	Do(ctx context.Context, goal conduct.Goal) (conduct.Outcome, error)
	Look(ctx context.Context, ref plan.Ref) conduct.Outcome
}

var _ Conductor = (*conduct.Conductor)(nil)

// Service is the server of the calls. Make it with New.
type Service struct {
	supervisorv1.UnimplementedSupervisorServiceServer

	settings  Settings
	gatewayID string
	conductor Conductor
	fences    Fences
	turns     *turns
	// looks are the turns of Status, of which each is some seven reads.
	looks   *turns
	log     zerolog.Logger
	metrics *metrics
}

var _ supervisorv1.SupervisorServiceServer = (*Service)(nil)

// New makes a Service for one gateway; fences are nil where nobody probes them. It registers the metrics portcullis_supervisorctl_call_seconds and _calls_in_progress.
func New(settings Settings, gatewayID string, conductor Conductor, fences Fences, log zerolog.Logger, reg prometheus.Registerer) (*Service, error) {
	var problems []error
	settings.Validate(func(key, problem string) {
		problems = append(problems, fmt.Errorf("portcullis.supervisorctl.%s %s", key, problem))
	})
	if gatewayID == "" || conductor == nil {
		problems = append(problems, errors.New("service: a gateway id and a conductor must be given"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if fences == nil {
		fences = unprobed{}
	}
	s := &Service{
		settings: settings, gatewayID: gatewayID, conductor: conductor, fences: fences, log: log,
		turns: newTurns(settings.MaxConcurrent, settings.MaxConcurrentPerNamespace),
		looks: newTurns(settings.MaxConcurrent, settings.MaxConcurrentPerNamespace),
	}
	var err error
	s.metrics, err = newMetrics(reg, func() float64 { return float64(s.turns.taken()) })
	return s, err
}

// Provision implements the call.
func (s *Service) Provision(ctx context.Context, in *supervisorv1.ProvisionRequest) (*supervisorv1.ProvisionResponse, error) {
	outcome, err := s.call(ctx, "provision", in.GetRequestId(), func() (conduct.Goal, verdict.Decision) {
		return s.raise(plan.Provision, in.GetSandbox(), in.GetRun(), in.GetLaunchAuthentication())
	})
	if err != nil {
		return nil, err
	}
	return &supervisorv1.ProvisionResponse{Identity: released(&outcome.facts), Status: s.describe(outcome.ref, &outcome.facts)}, nil
}

// Restart implements the call.
func (s *Service) Restart(ctx context.Context, in *supervisorv1.RestartRequest) (*supervisorv1.RestartResponse, error) {
	outcome, err := s.call(ctx, "restart", in.GetRequestId(), func() (conduct.Goal, verdict.Decision) {
		goal, refused := s.raise(plan.Restart, in.GetSandbox(), in.GetRun(), in.GetLaunchAuthentication())
		if refused.Granted() {
			refused = expected(in.GetExpectedRuntimeIdentity(), goal.Ref)
		}
		return goal, refused
	})
	if err != nil {
		return nil, err
	}
	return &supervisorv1.RestartResponse{Identity: released(&outcome.facts), Status: s.describe(outcome.ref, &outcome.facts)}, nil
}

// Release implements the call. That a stop is complete is proven, also of a sandbox of which nothing at all is left.
func (s *Service) Release(ctx context.Context, in *supervisorv1.ReleaseRequest) (*supervisorv1.ReleaseResponse, error) {
	outcome, err := s.call(ctx, "release", in.GetRequestId(), func() (conduct.Goal, verdict.Decision) {
		return s.lower(plan.Release, in.GetSandbox(), in.GetRun(), false)
	})
	if err != nil {
		return nil, err
	}
	status := s.describe(outcome.ref, &outcome.facts)
	status.Phase = supervisorv1.Phase_PHASE_SUSPENDED
	return &supervisorv1.ReleaseResponse{Status: status}, nil
}

// Remove implements the call. That nothing is left is proven, also where the record of a Sandbox that is going still says otherwise.
func (s *Service) Remove(ctx context.Context, in *supervisorv1.RemoveRequest) (*supervisorv1.RemoveResponse, error) {
	outcome, err := s.call(ctx, "remove", in.GetRequestId(), func() (conduct.Goal, verdict.Decision) {
		return s.lower(plan.Remove, in.GetSandbox(), in.GetRun(), true)
	})
	if err != nil {
		return nil, err
	}
	status := s.describe(outcome.ref, &outcome.facts)
	status.Phase = supervisorv1.Phase_PHASE_ABSENT
	return &supervisorv1.RemoveResponse{Status: status}, nil
}

// Status implements the call. What could not be read is in the answer as unknown; only a Sandbox that is another one is refused.
func (s *Service) Status(ctx context.Context, in *supervisorv1.StatusRequest) (*supervisorv1.StatusResponse, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.settings.CallTimeout.Std())
	defer cancel()
	ref, decision := reference(in.GetSandbox(), s.gatewayID, false)
	var facts plan.Facts
	if decision.Granted() {
		facts, decision = s.look(ctx, ref)
	}
	s.conclude(ctx, callStatus, "", ref, decision, time.Since(began))
	if err := decision.Err(); err != nil {
		return nil, err
	}
	return &supervisorv1.StatusResponse{Status: s.describe(ref, &facts)}, nil
}

// look waits for its turn, and looks.
func (s *Service) look(ctx context.Context, ref plan.Ref) (facts plan.Facts, decision verdict.Decision) {
	waiting, end := context.WithTimeout(ctx, turnLimit(ctx))
	leave, err := s.looks.take(waiting, ref.Namespace)
	end()
	if err != nil {
		return facts, noTurn(err)
	}
	defer leave()
	decision = s.guarded(func() verdict.Decision {
		facts = s.conductor.Look(ctx, ref).Facts
		return same(&facts, ref)
	})
	return facts, decision
}

func noTurn(err error) verdict.Decision {
	return verdict.Refuse(verdict.TooManyCalls, stepTurn, "no turn came in time: "+err.Error())
}

// raise is the goal to raise a run. Whoever gets a goal wipes its bundle; the bytes that it was read from are cleared here.
func (s *Service) raise(goal plan.Goal, ref *supervisorv1.SandboxRef, run *supervisorv1.Run, raw []byte) (conduct.Goal, verdict.Decision) {
	defer clear(raw)
	g := conduct.Goal{Want: plan.Want{Goal: goal}, Patient: true}
	var refused verdict.Decision
	if g.Ref, refused = reference(ref, s.gatewayID, false); !refused.Granted() {
		return g, refused
	}
	if g.Run, refused = wantedRun(run, false); !refused.Granted() {
		return g, refused
	}
	g.Bundle, g.Run, refused = credentials(raw, g.Run)
	return g, refused
}

// lower is the goal to end a run.
func (s *Service) lower(goal plan.Goal, ref *supervisorv1.SandboxRef, run *supervisorv1.Run, anyUID bool) (conduct.Goal, verdict.Decision) {
	g := conduct.Goal{Want: plan.Want{Goal: goal}, Patient: true}
	var refused verdict.Decision
	if g.Ref, refused = reference(ref, s.gatewayID, anyUID); !refused.Granted() {
		return g, refused
	}
	g.Run, refused = wantedRun(run, true)
	return g, refused
}

// answer is what a call is answered from.
type answer struct {
	ref   plan.Ref
	facts plan.Facts
}

// call checks a request, waits for its turn and works on its goal.
func (s *Service) call(ctx context.Context, name, id string, read func() (conduct.Goal, verdict.Decision)) (answer, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.settings.CallTimeout.Std())
	defer cancel()
	goal, decision := read()
	if goal.Bundle != nil {
		defer goal.Bundle.Wipe()
	}
	if decision.Granted() {
		decision = requestID(id)
	}
	got := answer{ref: goal.Ref}
	if decision.Granted() {
		got.facts, decision = s.work(ctx, goal)
	}
	s.conclude(ctx, name, id, goal.Ref, decision, time.Since(began))
	return got, decision.Err()
}

// workTime is what a call that waits for its turn keeps of its time for the work, or half of its time when that is less.
const workTime = 10 * time.Second

// turnLimit is how long a call may wait for its turn.
func turnLimit(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline() // every call has one
	left := time.Until(deadline)
	return max(left/2, left-workTime)
}

// work waits for the turn of a goal, and works on it. Meanwhile the reconcile loop of this process knows that somebody will be at it.
func (s *Service) work(ctx context.Context, goal conduct.Goal) (facts plan.Facts, decision verdict.Decision) {
	defer s.conductor.Expect(goal.Ref)()
	waiting, end := s.patience(ctx, goal.Goal)
	leave, err := s.turns.take(waiting, goal.Ref.Namespace)
	end()
	if err != nil {
		return facts, noTurn(err)
	}
	defer leave()
	decision = s.guarded(func() verdict.Decision {
		if refused := s.fenced(goal.Goal, goal.Ref.Namespace); !refused.Granted() {
			return refused
		}
		outcome, err := s.conductor.Do(ctx, goal)
		facts = outcome.Facts
		return judged(goal.Goal, outcome, err)
	})
	return facts, decision
}

// unledLimit is how long a start may wait while the reconcile loop is another replica's. That one knows nothing of calls that wait here,
// and takes a start for abandoned that has made no progress for [plan.IdleLimit]; the difference is for the first write.
const unledLimit = plan.IdleLimit - 5*time.Second

var errUnled = errors.New("another replica leads, and would take a start that waits any longer here for abandoned")

// patience is ctx until the call has waited for long enough. Who leads may change meanwhile: a loop that has just begun to lead takes a
// start for abandoned no earlier than [plan.IdleLimit] after that.
func (s *Service) patience(ctx context.Context, goal plan.Goal) (waiting context.Context, end func()) {
	limited, cancel := context.WithTimeout(ctx, turnLimit(ctx))
	if goal != plan.Provision {
		return limited, cancel
	}
	waiting, give := context.WithCancelCause(limited)
	var watch sync.WaitGroup
	watch.Go(func() {
		ticks := time.NewTicker(unledLimit)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				if !s.conductor.Leads() {
					give(errUnled)
				}
			case <-waiting.Done():
				return
			}
		}
	})
	return waiting, func() { cancel(); watch.Wait() }
}

// judged is what the end of the work means to the caller. A run that was raised has an identity, or nobody could be sent to it.
func judged(goal plan.Goal, outcome conduct.Outcome, err error) verdict.Decision {
	raised := goal == plan.Provision || goal == plan.Restart
	switch {
	case errors.Is(err, conduct.ErrBusy):
		return verdict.Refuse(verdict.RunIsTaken, stepTurn, err.Error())
	case err != nil:
		return verdict.Refuse(verdict.Unexplained, stepTurn, err.Error())
	case outcome.Step.Action != plan.Done:
		return told(verdict.Refuse(outcome.Step.Reason, goal.String(), outcome.Step.Explanation))
	case raised && !complete(released(&outcome.Facts)):
		return verdict.Refuse(verdict.Unexplained, goal.String(), "the run stands, and its record does not name both Pods")
	}
	return granted()
}

// told adds to what the caller is told of the cluster's refusal what of the cluster's words may go beyond the log: a quota's name and its
// numbers, a level of Pod security, a limit. A gateway's user sees no more of a refusal than this text (contract 2.6).
func told(d verdict.Decision) verdict.Decision {
	if d.Reason != verdict.WorkloadRefused && d.Reason != verdict.CompanionRefused {
		return d
	}
	if words := rejection.Words(d.Explanation); words != "" {
		return d.WithMessage(d.Message() + ": " + words)
	}
	return d
}

// guarded makes a defect in one call this call's refusal.
func (s *Service) guarded(do func() verdict.Decision) (decision verdict.Decision) {
	defer func() {
		if r := recover(); r != nil {
			p := conduct.Recovered(r)
			s.log.Error().Str(telemetry.KeyPanic, p.Kind).Bytes(telemetry.KeyStack, p.Stack).Msg("a call panicked")
			decision = verdict.Refuse(verdict.Unexplained, stepRequest, "the call panicked; the log has the stack")
		}
	}()
	return do()
}
