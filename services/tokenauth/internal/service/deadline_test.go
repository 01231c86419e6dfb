package service_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestACallHasADeadline: a decision that takes too long ends before the call, which is told what was waited for.
func TestACallHasADeadline(t *testing.T) {
	t.Parallel()
	settings := service.DefaultSettings()
	settings.CallTimeout, settings.LookupTimeout = driverconf.Duration(5*time.Second), driverconf.Duration(time.Second)
	h := newHanging()
	f := serve(t, settings, h, nil)
	began := time.Now()
	waiting := call(t.Context(), f.client("lifecycle"), "box")
	ctx := get(t, h.begun)
	if end, ok := ctx.Deadline(); !ok || end.After(time.Now().Add(4500*time.Millisecond)) || end.Before(began) {
		t.Errorf("the decision ends %s after the call began, %t", end.Sub(began), ok)
	}
	if d, _ := verdict.FromError(get(t, waiting).err); d.Reason != verdict.ReviewFailed {
		t.Errorf("%s", d.Explain())
	}
}

// TestTheDecisionHasTheCallersDeadline: of a caller that has less time than CallTimeout, a little before it ends.
func TestTheDecisionHasTheCallersDeadline(t *testing.T) {
	t.Parallel()
	settings := service.DefaultSettings()
	settings.CallTimeout = driverconf.Duration(time.Minute)
	f := serve(t, settings, inquirer(func(ctx context.Context, r inquiry.Request) authenticate.Result {
		end, _ := ctx.Deadline()
		return granted(end.UTC().Format(time.RFC3339Nano))
	}), nil)
	c := f.client("lifecycle")
	const short = 30 * time.Second
	bounded, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	callers, _ := bounded.Deadline()
	got := get(t, call(bounded, c, "box"))
	end, err := time.Parse(time.RFC3339Nano, got.GetSandboxId())
	if err != nil || !end.Before(callers) {
		t.Errorf("the caller's deadline is %s, the decision's %s, %v", callers, end, err)
	}
}

// TestACallThatWaitsForAnotherHasADeadline: also when the work for its token does not end when it should.
func TestACallThatWaitsForAnotherHasADeadline(t *testing.T) {
	settings := service.DefaultSettings()
	settings.CallTimeout, settings.LookupTimeout = driverconf.Duration(300*time.Millisecond), driverconf.Duration(200*time.Millisecond)
	let, begun := make(chan struct{}), make(chan struct{}, 10)
	f := serve(t, settings, inquirer(func(context.Context, inquiry.Request) authenticate.Result {
		begun <- struct{}{}
		<-let
		return granted("box")
	}), nil)
	defer close(let)
	c := f.client("lifecycle")
	first := call(t.Context(), c, "box")
	get(t, begun)
	for _, got := range []answer{get(t, call(t.Context(), c, "box")), get(t, first)} {
		if d, _ := verdict.FromError(got.err); d.Reason != verdict.CallEnded || status.Code(got.err) != codes.DeadlineExceeded {
			t.Errorf("%v", got.err)
		}
	}
}

// TestTheEndOfTheCallEndsTheDecision: nothing goes on for a caller that has gone.
func TestTheEndOfTheCallEndsTheDecision(t *testing.T) {
	h := newHanging()
	f := serve(t, service.DefaultSettings(), h, nil)
	c := f.client("lifecycle")
	gone, leave := context.WithCancel(t.Context())
	got := call(gone, c, "box")
	running := get(t, h.begun)
	leave()
	if err := get(t, got).err; status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	get(t, running.Done())
	commandtest.Eventually(t, "the call is recorded", func() bool { return len(f.events.all()) == 1 })
	if d := f.events.all()[0].Decision; d.Reason != verdict.CallEnded || d.Outcome() != verdict.Unknown {
		t.Errorf("%s", d.Explain())
	}
}
