package conformance_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/conformance"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// leak leaves an object at the platform.
func (e *exemplar) leak(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaked[id] = true
}

// leakAll leaves one of every sandbox that ever was.
func (e *exemplar) leakAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id := range e.gates {
		e.leaked[id] = true
	}
}

// goesOn lets what every sandbox runs go on.
func (e *exemplar) goesOn() {
	for _, id := range e.ids() {
		e.mu.Lock()
		e.runs[id] = true
		e.mu.Unlock()
	}
}

func (e *exemplar) ids() (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id := range e.boxes {
		all = append(all, id)
	}
	return all
}

// lags answers NOT_FOUND to the first question for a sandbox.
func lags() around {
	var asked atomic.Bool
	return before("GetSandbox", func(context.Context, *exemplar, any) error {
		if !asked.Swap(true) {
			return errAbsent
		}
		return nil
	}).around
}

// outdated tells what it told before once more, after what is new.
func outdated(when func(event *computev1.WatchSandboxesEvent) bool) flaw {
	return flaw{tell: func(_ *exemplar, event, last *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
		all := []*computev1.WatchSandboxesEvent{event}
		if last != nil && when(event) {
			all = append(all, last)
		}
		return all
	}}
}

func suspended(e *computev1.WatchSandboxesEvent) bool {
	return is(e.GetSandbox().GetSandbox(), "Suspended")
}

func watchFlaws() []planted {
	tellNothing := func(when func(*computev1.WatchSandboxesEvent) bool) flaw {
		return flaw{tell: func(_ *exemplar, event, _ *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
			if when(event) {
				return nil
			}
			return []*computev1.WatchSandboxesEvent{event}
		}}
	}
	return []planted{
		{"watch.snapshot", "name is", told(func(_ *exemplar, s *computev1.DriverSandbox) { s.Name = "team--" + s.GetName() })},
		{"watch.life", "is deleted", tellNothing(func(e *computev1.WatchSandboxesEvent) bool { return e.GetDeleted() != nil })},
		{"watch.life", "is Stopped", tellNothing(suspended)},
		{"watch.order", "was told", flaw{tell: stale(suspended)}}, // after Stopped; or, if it comes after the call, before its own start
		{"watch.order", "was told after the deletion", outdated(func(e *computev1.WatchSandboxesEvent) bool { return e.GetDeleted() != nil })},
		{"watch.starting", "never with Bootstrapping=True", told(func(_ *exemplar, s *computev1.DriverSandbox) {
			for _, c := range s.GetStatus().GetConditions() {
				c.Type = strings.Replace(c.GetType(), "Bootstrapping", "Other", 1)
			}
		})},
		{"watch.starting", "together with Bootstrapping", told(func(_ *exemplar, s *computev1.DriverSandbox) {
			if is(s, "Bootstrapping") {
				s.Status.Conditions = append(s.Status.Conditions, scripted.Condition("Suspended", "True", "PodTerminated"))
			}
		})},
		{"watch.transient", "Error was told", told(func(_ *exemplar, s *computev1.DriverSandbox) {
			for _, c := range s.GetStatus().GetConditions() {
				c.Reason = strings.Replace(c.GetReason(), "DependenciesNotReady", "MultiplePods", 1)
			}
		})},
		{"watch.several", "is Ready", tellNothing(func(e *computev1.WatchSandboxesEvent) bool { return is(e.GetSandbox().GetSandbox(), "Ready") })},
		{"watch.slow", "is deleted", tellNothing(func(e *computev1.WatchSandboxesEvent) bool { return e.GetDeleted() != nil })},
		{"watch.events", "the subject of an event", flaw{silent: true}},
		{"watch.republish", "is Ready", flaw{silent: true}},
		{"cancel.watch", "by a flaw", flaw{watch: exhausted()}},
	}
}

// stale tells a snapshot of before once more, after the first that fits.
func stale(when func(*computev1.WatchSandboxesEvent) bool) func(*exemplar, *computev1.WatchSandboxesEvent, *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
	var mu sync.Mutex
	former := map[string]*computev1.WatchSandboxesEvent{}
	return func(_ *exemplar, event, _ *computev1.WatchSandboxesEvent) []*computev1.WatchSandboxesEvent {
		mu.Lock()
		defer mu.Unlock()
		all, id := []*computev1.WatchSandboxesEvent{event}, event.GetSandbox().GetSandbox().GetId()
		if is(event.GetSandbox().GetSandbox(), "Ready") {
			former[id] = event
		} else if when(event) && former[id] != nil {
			all = append(all, former[id])
			former[id] = nil
		}
		return all
	}
}

// exhausted serves some watches, and no more.
func exhausted() func(*exemplar) error {
	var begun atomic.Int64
	return func(*exemplar) error {
		const most = 20
		if begun.Add(1) > most {
			return status.Error(codes.ResourceExhausted, "by a flaw")
		}
		return nil
	}
}

func furtherFlaws() []planted {
	anywhere := func(method string) flaw {
		return answered(method, func(_ *exemplar, request, answer any, err error) (any, error) {
			if err != nil {
				text, _ := proto.Marshal(request.(proto.Message))
				err = status.Error(status.Code(err), strings.ToValidUTF8(string(text), ""))
			}
			return answer, err
		})
	}
	return []planted{
		{"workspace.nothing", "got OK", granted("DeleteWorkspace", codes.InvalidArgument, &computev1.DeleteWorkspaceResponse{})},
		{"workspace.again", "got AlreadyExists", flaw{around: ensuresOnce()}},
		{"workspace.forbidden", "got FailedPrecondition", recoded("EnsureWorkspace", codes.PermissionDenied, codes.FailedPrecondition)},
		{"workspace.delete-absent", "got NotFound", before("DeleteWorkspace", func(context.Context, *exemplar, any) error { return errAbsent })},
		{"workspace.hostile.path", "got OK", validationOff},
		{"secrets.answers", "GetSandbox holds a secret", altered("GetSandbox", func(e *exemplar, a *computev1.GetSandboxResponse) {
			a.Sandbox.Spec = &computev1.DriverSandboxSpec{LaunchAuthentication: []byte(e.box(a.GetSandbox().GetId()).bundle)}
		})},
		{"secrets.answers", "a snapshot of the watch holds a secret", told(func(e *exemplar, s *computev1.DriverSandbox) {
			if b := e.box(s.GetId()); b != nil {
				s.Spec = &computev1.DriverSandboxSpec{LaunchAuthentication: []byte(b.bundle)}
			}
		})},
		{"secrets.errors", "CreateSandbox with a bad bundle", anywhere("CreateSandbox")},
		{"secrets.errors", "ValidateSandboxCreate", anywhere("ValidateSandboxCreate")},
		{"secrets.errors", "StartSandbox", anywhere("StartSandbox")},
		{"secrets.errors", "AuthenticateSandbox", anywhere("AuthenticateSandbox")},
		{"cancel.create", "3 of 3 left something", flaw{around: deaf("CreateSandbox")}},
		{"cancel.create", "left something", flaw{around: hearsAtFirst("CreateSandbox", 5)}},
		{"cancel.stop", "by a flaw", before("StopSandbox", stuck())},
		{"cancel.start", "by a flaw", before("StartSandbox", stuck())},
		{"cancel.delete", "by a flaw", before("DeleteSandbox", stuck())},
		{"crash.absence", "a sandbox that is there", flaw{reborn: func(e *exemplar) { e.forgetful() }}},
		{"crash.policy", "after", flaw{reborn: func(e *exemplar) {
			e.SetCapabilities(func(c *computev1.GetCapabilitiesResponse) { c.ResourceAdmissionPolicy += " " })
		}}},
		{"crash.create", "the platform has", flaw{reborn: func(e *exemplar) { e.leakAll() }}},
		{"crash.stop", "the stop can be repeated", flaw{reborn: func(e *exemplar) { e.forgetful() }}},
		{"collide.companion", "the first sandbox is", flaw{around: displaces("os-supervisor-")}},
		{"collide.composed", "the first sandbox is", flaw{around: displaces("x")}},
		{"collide.case", "the first sandbox is", flaw{around: folds}},
	}
}

func ensuresOnce() around {
	var ensured atomic.Bool
	return before("EnsureWorkspace", func(context.Context, *exemplar, any) error {
		if ensured.Swap(true) {
			return status.Error(codes.AlreadyExists, "by a flaw")
		}
		return nil
	}).around
}

// deaf does not hear that its caller has gone.
func deaf(method string) around {
	return func(ctx context.Context, _ *exemplar, called string, request any, next grpc.UnaryHandler) (any, error) {
		if called == method {
			ctx = context.WithoutCancel(ctx)
		}
		return next(ctx, request)
	}
}

// hearsAtFirst hears it in so many calls, and is deaf after that: one try that leaves nothing does not speak for the others.
func hearsAtFirst(method string, hears int64) around {
	var calls atomic.Int64
	deaf := deaf(method)
	return func(ctx context.Context, e *exemplar, called string, request any, next grpc.UnaryHandler) (any, error) {
		if called == method && calls.Add(1) <= hears {
			return next(ctx, request)
		}
		return deaf(ctx, e, called, request, next)
	}
}

// stuck works no more once a caller has gone.
func stuck() func(context.Context, *exemplar, any) error {
	var gone atomic.Bool
	return func(ctx context.Context, _ *exemplar, _ any) error {
		if gone.Load() {
			return status.Error(codes.FailedPrecondition, "by a flaw")
		}
		context.AfterFunc(ctx, func() { gone.Store(context.Cause(ctx) != nil) })
		return nil
	}
}

// forgetful loses every sandbox.
func (e *exemplar) forgetful() {
	for _, id := range e.ids() {
		e.forget(id)
		e.Vanish(id, true)
	}
}

// displaces lets a sandbox with such a name end all others.
func displaces(name string) around {
	return before("CreateSandbox", func(_ context.Context, e *exemplar, r any) error {
		if strings.HasPrefix(r.(*computev1.CreateSandboxRequest).GetSandbox().GetName(), name) {
			for _, id := range e.ids() {
				e.show(id, scripted.Failed()...)
			}
		}
		return nil
	}).around
}

// folds takes ids in capitals for those in small letters.
func folds(ctx context.Context, _ *exemplar, method string, request any, next grpc.UnaryHandler) (any, error) {
	if r, ok := request.(*computev1.StopSandboxRequest); ok {
		r.SandboxId = strings.ToLower(r.GetSandboxId())
	}
	return next(ctx, request)
}

// TestFlaws: each flaw is found by the check that names it, and for what it is.
func TestFlaws(t *testing.T) {
	checks := map[string]conformance.Check{}
	for _, c := range conformance.Checks() {
		checks[c.ID] = c
	}
	caught := map[string]bool{}
	for _, one := range flaws() {
		caught[one.check] = true
		t.Run(one.check+"/"+one.came, func(t *testing.T) {
			t.Parallel()
			e := newExemplar(t, false, time.Second, one.flaw)
			finding, missing := checks[one.check].Run(t.Context(), e)
			switch {
			case finding == nil:
				t.Fatalf("the flaw was not found; missing: %q", missing)
			case !strings.Contains(finding.Came, one.came):
				t.Fatalf("it was found for another reason than %q: %s", one.came, finding)
			}
		})
	}
	for id := range checks {
		general := strings.HasPrefix(id, "hostile.") || strings.HasPrefix(id, "field.") || strings.HasPrefix(id, "workspace.hostile.") ||
			strings.HasPrefix(id, "capabilities.peer.")
		if !caught[id] && !general {
			t.Errorf("no flaw is planted for the check %s", id)
		}
	}
}

// TestHostileFlaws: every check of a hostile request finds a driver that takes it, one that fails over it, one that makes the sandbox
// all the same, and one that does not say where the trouble is.
func TestHostileFlaws(t *testing.T) {
	refuse := func(code codes.Code) around {
		return everything(func(*exemplar, any) (any, error) { return nil, status.Error(code, "by a flaw") })
	}
	drivers := map[string]around{
		"takes it": everything(func(*exemplar, any) (any, error) { return nil, nil }), "fails": refuse(codes.DataLoss),
		"makes it": everything(makes), "says nothing": refuse(codes.InvalidArgument),
	}
	for name, driver := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := newExemplar(t, true, time.Second, flaw{around: driver, reads: true})
			without := newExemplar(t, false, time.Second, flaw{around: driver, reads: true})
			for _, c := range conformance.Checks() {
				hostile, field := strings.HasPrefix(c.ID, "hostile."), strings.HasPrefix(c.ID, "field.")
				finds := hostile && name != "says nothing" || field && name == "says nothing"
				e := with
				if strings.HasSuffix(c.ID, ".config-disabled") {
					e = without
				}
				if finds {
					if finding, _ := c.Run(t.Context(), e); finding == nil {
						t.Errorf("%s did not find it", c.ID)
					}
				}
				e.forgetful()
			}
		})
	}
}

// everything answers the two calls that carry a sandbox.
func everything(answer func(e *exemplar, request any) (any, error)) around {
	return func(ctx context.Context, e *exemplar, method string, request any, next grpc.UnaryHandler) (any, error) {
		switch method {
		case "ValidateSandboxCreate":
			given, err := answer(e, request)
			if given == nil && err == nil {
				given = &computev1.ValidateSandboxCreateResponse{}
			}
			return given, err
		case "CreateSandbox":
			given, err := answer(e, request)
			if given == nil && err == nil {
				given = &computev1.CreateSandboxResponse{RuntimeIdentity: "x"}
			}
			return given, err
		default:
			return next(ctx, request)
		}
	}
}

// makes makes the sandbox, and refuses it.
func makes(e *exemplar, request any) (any, error) {
	if r, ok := request.(*computev1.CreateSandboxRequest); ok {
		_, _ = e.Driver.CreateSandbox(context.Background(), r) // the model takes everything
		e.mu.Lock()
		defer e.mu.Unlock()
		e.boxes[r.GetSandbox().GetId()] = &made{}
	}
	return nil, status.Error(codes.InvalidArgument, "by a flaw")
}
