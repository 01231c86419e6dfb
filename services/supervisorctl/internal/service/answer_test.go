package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestIdentity: that of the run that was released, whole.
func TestIdentity(t *testing.T) {
	want := &supervisorv1.RuntimeIdentity{Namespace: "sandboxes", SandboxUid: "uid-box", SupervisorUid: "uid-supervisor", WorkloadUid: "uid-workload"}
	for _, call := range []string{"provision", "restart"} {
		s := newSite(t)
		_, got, err := calls[call](t.Context(), s, valid(t))
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
			t.Errorf("%s: %v %s", call, err, diff)
		}
		for name, edit := range map[string]func(*plan.Facts){
			"no supervisor": func(f *plan.Facts) { record(f, func(r *runstate.Record) { r.SupervisorUID = "" }) },
			"no workload":   func(f *plan.Facts) { record(f, func(r *runstate.Record) { r.WorkloadUID = "" }) },
			"no Sandbox":    func(f *plan.Facts) { f.Sandbox = plan.Absent[sandboxapi.Object]() },
			"no record": func(f *plan.Facts) {
				f.Sandbox = edited(f.Sandbox, func(o *sandboxapi.Object) {
					o.Annotations = map[string]string{"openshell.ai/sandbox-runtime-bootstrap-phase": "x"}
				})
			},
		} {
			facts := standing()
			edit(&facts)
			s.finds(facts)
			if _, got, err := calls[call](t.Context(), s, valid(t)); status.Code(err) != codes.Internal || got != nil {
				t.Errorf("%s, %s: %v, %v", call, name, got, err)
			}
		}
	}
}

// TestRefusals of the conductor reach the caller with their codes and reasons.
func TestRefusals(t *testing.T) {
	for reason, code := range map[verdict.Reason]codes.Code{
		plan.SandboxAbsent: codes.NotFound, plan.ObjectUnreadable: codes.Unavailable, plan.SandboxReplaced: codes.FailedPrecondition,
		plan.SandboxForeign: codes.FailedPrecondition, plan.SandboxDeleting: codes.FailedPrecondition, plan.RecordInvalid: codes.FailedPrecondition,
		plan.IsAnother: codes.FailedPrecondition, plan.IsTaken: codes.Unavailable, plan.Broke: codes.FailedPrecondition,
		plan.FenceNotAcknowledged: codes.FailedPrecondition, plan.FenceAltered: codes.FailedPrecondition, plan.Collision: codes.FailedPrecondition,
		plan.ServiceWithoutAddress: codes.FailedPrecondition, plan.WorkloadMissing: codes.Unavailable, plan.WorkloadRefused: codes.FailedPrecondition,
		plan.WorkloadAltered: codes.FailedPrecondition, plan.GateLifted: codes.FailedPrecondition, conduct.CompanionRefused: codes.FailedPrecondition,
		conduct.StopOverdue: codes.Unavailable, verdict.CallEnded: codes.DeadlineExceeded, verdict.Unexplained: codes.Internal,
	} {
		for name, call := range calls {
			if name == "status" {
				continue
			}
			s := newSite(t)
			s.conductor.do = func(context.Context, conduct.Goal) (conduct.Outcome, error) {
				return conduct.Outcome{Step: plan.Step{Reason: reason, Explanation: "because"}, Facts: standing()}, nil
			}
			out, _, err := call(t.Context(), s, valid(t))
			if d := refusal(t, err); status.Code(err) != code || d.Reason != reason || d.Step != name || d.Explanation != "because" || out != nil {
				t.Errorf("%s, %s: %v, %+v", name, reason, err, d)
			}
			if log := s.log.String(); !strings.Contains(log, `"reason":"`+string(reason)+`"`) || !strings.Contains(log, `"request_id":"req-1"`) || !strings.Contains(log, "because") {
				t.Errorf("%s", log)
			}
		}
	}
}

// TestTheCausesOfRefusalsAreTold: who asked reads what the cluster refuses the run for, by its name and numbers, and nothing else of what the
// cluster said; that is in the explanation.
func TestTheCausesOfRefusalsAreTold(t *testing.T) {
	const quota = "exceeded quota: one-pod, requested: pods=1, used: pods=1, limited: pods=1"
	for name, c := range map[string]struct {
		reason    verdict.Reason
		say, want string
	}{
		"workload": {plan.WorkloadRefused, `the controller reports: pods "hush" is forbidden: ` + quota, "the cluster refuses the sandbox's pod: " + quota},
		"companion": {
			conduct.CompanionRefused, `create pods a/b: the cluster refuses it: pods "hush" is forbidden: ` + quota + "; what the run made is still being taken away",
			"the cluster refuses a companion of the sandbox: " + quota,
		},
		"unknown words":  {plan.WorkloadRefused, "the controller reports: hush", "the cluster refuses the sandbox's pod"},
		"another reason": {plan.Broke, quota, "the sandbox's run lost a part and cannot go on"},
		"many words": {
			plan.WorkloadRefused, `pods "hush" is forbidden: exceeded quota: ` + strings.Repeat("q", 400) + ", requested: pods=1",
			"the cluster refuses the sandbox's pod: exceeded quota: " + strings.Repeat("q", 187) + ", ...",
		},
	} {
		s := newSite(t)
		s.conductor.do = func(context.Context, conduct.Goal) (conduct.Outcome, error) {
			return conduct.Outcome{Step: plan.Step{Reason: c.reason, Explanation: c.say}, Facts: standing()}, nil
		}
		_, _, err := calls["provision"](t.Context(), s, valid(t))
		if d := refusal(t, err); status.Convert(err).Message() != c.want || d.Message() != c.want || d.Explanation != c.say {
			t.Errorf("%s: told %q, want %q; explained with %q", name, status.Convert(err).Message(), c.want, d.Explanation)
		}
	}
}

func TestErrorsOfTheConductor(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		code   codes.Code
		reason verdict.Reason
	}{
		"busy":  {fmt.Errorf("%w, and the call ended", conduct.ErrBusy), codes.Unavailable, verdict.RunIsTaken},
		"other": {errors.New("no randomness"), codes.Internal, verdict.Unexplained},
	} {
		s := newSite(t)
		s.conductor.do = func(context.Context, conduct.Goal) (conduct.Outcome, error) { return conduct.Outcome{}, tc.err }
		_, _, err := calls["release"](t.Context(), s, valid(t))
		if d := refusal(t, err); status.Code(err) != tc.code || d.Reason != tc.reason || d.Explanation != tc.err.Error() {
			t.Errorf("%s: %v, %+v", name, err, d)
		}
	}
}

// TestPanics are one call's own, and leave its turn to the next.
func TestPanics(t *testing.T) {
	for name, call := range calls {
		s := newSite(t, func(c *service.Settings) { c.MaxConcurrent, c.MaxConcurrentPerNamespace = 1, 1 })
		s.conductor.do = func(context.Context, conduct.Goal) (conduct.Outcome, error) { panic("a private word") }
		s.conductor.look = func(context.Context, plan.Ref) conduct.Outcome { panic("a private word") }
		for range 2 {
			_, _, err := call(t.Context(), s, valid(t))
			if d := refusal(t, err); status.Code(err) != codes.Internal || d.Reason != verdict.Unexplained || strings.Contains(fmt.Sprint(err, d), "private") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if log := s.log.String(); strings.Contains(log, "private") || !strings.Contains(log, "a call panicked") || !strings.Contains(log, "answer_test.go") {
			t.Errorf("%s: %s", name, log)
		}
		s.finds(standing())
		if _, _, err := call(t.Context(), s, valid(t)); err != nil {
			t.Errorf("%s, afterwards: %v", name, err)
		}
	}
}

// TestPhaseOfAStop and of a removal are what the calls promise, whatever the record of a Sandbox that goes still says.
func TestPhaseOfAStop(t *testing.T) {
	for name, edit := range map[string]func(*plan.Facts){
		"at rest": func(f *plan.Facts) {
			record(f, func(r *runstate.Record) { *r = r.Stopped() })
			f.Sandbox = edited(f.Sandbox, func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended })
			f.Supervisor, f.Workload, f.Service = plan.Absent[plan.Pod](), plan.Absent[plan.Pod](), plan.Absent[plan.Service]()
		},
		"going":    func(f *plan.Facts) { f.Sandbox = edited(f.Sandbox, func(o *sandboxapi.Object) { o.Deleting = true }) },
		"replaced": func(f *plan.Facts) { f.Sandbox = edited(f.Sandbox, func(o *sandboxapi.Object) { o.UID = "uid-new" }) },
		"gone":     func(f *plan.Facts) { f.Sandbox = plan.Absent[sandboxapi.Object]() },
	} {
		s, facts := newSite(t), standing()
		edit(&facts)
		s.finds(facts)
		for call, want := range map[string]supervisorv1.Phase{"release": supervisorv1.Phase_PHASE_SUSPENDED, "remove": supervisorv1.Phase_PHASE_ABSENT} {
			out, _, err := calls[call](t.Context(), s, valid(t))
			if err != nil || out.GetPhase() != want || strings.Contains(out.String(), "uid-new") {
				t.Errorf("%s, %s: %v, %v", call, name, out, err)
			}
		}
	}
}

// TestMetrics: every call is counted with its outcome.
func TestMetrics(t *testing.T) {
	s := newSite(t)
	for name, call := range calls {
		if _, _, err := call(t.Context(), s, valid(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		broken := valid(t)
		broken.ref = nil
		if _, _, err := call(t.Context(), s, broken); err == nil {
			t.Errorf("%s", name)
		}
	}
	if n := testutil.CollectAndCount(s.registry, "portcullis_supervisorctl_call_seconds"); n != 10 {
		t.Errorf("%d series", n)
	}
	if problems, err := testutil.GatherAndLint(s.registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestNewWantsEverything(t *testing.T) {
	c := newSite(t).conductor
	good := service.DefaultSettings()
	for name, tc := range map[string]struct {
		edit func(*service.Settings)
		want string
	}{
		"call_timeout is short":                 {func(s *service.Settings) { s.CallTimeout = driverconf.Duration(1) }, "portcullis.supervisorctl.call_timeout"},
		"call_timeout is long":                  {func(s *service.Settings) { s.CallTimeout *= 3 }, "portcullis.supervisorctl.call_timeout"},
		"request_timeout is zero":               {func(s *service.Settings) { s.RequestTimeout = 0 }, "portcullis.supervisorctl.request_timeout"},
		"request_timeout is long":               {func(s *service.Settings) { s.RequestTimeout *= 3 }, "portcullis.supervisorctl.request_timeout"},
		"max_concurrent is zero":                {func(s *service.Settings) { s.MaxConcurrent = 0 }, "portcullis.supervisorctl.max_concurrent"},
		"max_concurrent is great":               {func(s *service.Settings) { s.MaxConcurrent = 1001 }, "portcullis.supervisorctl.max_concurrent"},
		"max_concurrent_per_namespace is zero":  {func(s *service.Settings) { s.MaxConcurrentPerNamespace = 0 }, "max_concurrent_per_namespace"},
		"max_concurrent_per_namespace is great": {func(s *service.Settings) { s.MaxConcurrentPerNamespace = 65 }, "max_concurrent_per_namespace"},
	} {
		settings := good
		tc.edit(&settings)
		if _, err := service.New(settings, gatewayID, c, nil, zerolog.Nop(), prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	registry := prometheus.NewRegistry()
	for name, create := range map[string]func() error{
		"no gateway":   func() error { _, err := service.New(good, "", c, nil, zerolog.Nop(), registry); return err },
		"no conductor": func() error { _, err := service.New(good, gatewayID, nil, nil, zerolog.Nop(), registry); return err },
		"no registry":  func() error { _, err := service.New(good, gatewayID, c, nil, zerolog.Nop(), nil); return err },
		"registered twice": func() error {
			_, err := service.New(good, gatewayID, c, nil, zerolog.Nop(), registry)
			_, again := service.New(good, gatewayID, c, nil, zerolog.Nop(), registry)
			return errors.Join(err, again)
		},
	} {
		if err := create(); err == nil {
			t.Errorf("%s", name)
		}
	}
}
