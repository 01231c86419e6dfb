package conformance_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/test/conformance"
)

const cutCreates = "cancel.create"

// crossing is a driver whose first answers to creates come all the same when they are cut: those crossed their cancellation.
func crossing(answers int64) flaw {
	var calls atomic.Int64
	deaf := deaf("CreateSandbox")
	return flaw{around: func(ctx context.Context, e *exemplar, called string, request any, next grpc.UnaryHandler) (any, error) {
		if called == "CreateSandbox" && calls.Add(1) <= answers {
			return deaf(ctx, e, called, request, next)
		}
		return next(ctx, request)
	}}
}

// uncut is a way to the driver on which a create cannot be cut short: it is always answered.
type uncut struct{ *exemplar }

func (u uncut) Conn() grpc.ClientConnInterface { return stubborn{u.exemplar.Conn()} }

type stubborn struct{ grpc.ClientConnInterface }

func (s stubborn) Invoke(ctx context.Context, method string, request, answer any, how ...grpc.CallOption) error {
	if strings.HasSuffix(method, "/CreateSandbox") {
		ctx = context.WithoutCancel(ctx)
	}
	return s.ClientConnInterface.Invoke(ctx, method, request, answer, how...)
}

// TestCutCreates: a sandbox or two that are there by right are no finding, and without a create that was cut nothing is known.
func TestCutCreates(t *testing.T) {
	for name, c := range map[string]struct {
		target  func(*testing.T) conformance.Target
		outcome conformance.Outcome
		missing string
	}{
		"two answers cross": {func(t *testing.T) conformance.Target {
			return newExemplar(t, false, time.Second, crossing(3)) // the first is not cut
		}, conformance.Passed, ""},
		"none is cut": {func(t *testing.T) conformance.Target {
			return uncut{newExemplar(t, false, time.Second, flaw{})}
		}, conformance.NotMade, "a create that can be cut short at 0/4 of its time: of 12 tries, 0 were; a create that can be cut short at 1/4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := conformance.Judge(t.Context(), c.target(t), conformance.How{Only: []string{cutCreates}})
			if err != nil || len(results) != 1 {
				t.Fatalf("%d results, error %v", len(results), err)
			}
			if r := results[0]; r.Outcome != c.outcome || !strings.HasPrefix(r.Missing, c.missing) || (r.Missing == "") != (c.missing == "") {
				t.Errorf("%s", r)
			}
		})
	}
}
