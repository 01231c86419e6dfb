package agentsandbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
)

var box = types.NamespacedName{Namespace: "ns", Name: "box"}

func TestFaultsZeroValueAndNil(t *testing.T) {
	for name, f := range map[string]*Faults{"nil": nil, "zero": {}} {
		if err := f.at(t.Context(), reconcile.CreatePod, box); err != nil {
			t.Errorf("%s faults interfered: %v", name, err)
		}
	}
}

func TestFaultsHold(t *testing.T) {
	var f Faults
	f.Hold(reconcile.CreatePod)
	passed := make(chan error, 1)
	go func() { passed <- f.at(t.Context(), reconcile.CreatePod, box) }()
	if err := f.AwaitHeld(t.Context(), reconcile.CreatePod, box); err != nil {
		t.Fatal(err)
	}
	if err := f.at(t.Context(), reconcile.DeletePod, box); err != nil {
		t.Errorf("another step was not let through: %v", err)
	}
	select {
	case err := <-passed:
		t.Fatalf("the held step went on before Release: %v", err)
	default:
	}
	f.Release(reconcile.CreatePod)
	if err := <-passed; err != nil {
		t.Errorf("after Release: %v", err)
	}
}

func TestFaultsHoldEndsWithContext(t *testing.T) {
	var f Faults
	f.Hold(reconcile.Observe)
	ctx, cancel := context.WithCancel(t.Context())
	passed := make(chan error, 1)
	go func() { passed <- f.at(ctx, reconcile.Observe, box) }()
	if err := f.AwaitHeld(t.Context(), reconcile.Observe, box); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-passed; !errors.Is(err, context.Canceled) {
		t.Errorf("held step after its context ended = %v, want canceled", err)
	}
}

func TestAwaitHeldGivesUp(t *testing.T) {
	var f Faults
	f.Hold(reconcile.CreatePod)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := f.AwaitHeld(ctx, reconcile.CreatePod, box); !errors.Is(err, cause) {
		t.Errorf("AwaitHeld = %v, want the context's cause", err)
	}
}

func TestFaultsDelayAndFail(t *testing.T) {
	var f Faults
	boom := errors.New("boom")
	f.Fail(reconcile.CreatePod, boom)
	f.Delay(reconcile.CreatePod, time.Millisecond)
	start := time.Now()
	if err := f.at(t.Context(), reconcile.CreatePod, box); !errors.Is(err, boom) {
		t.Errorf("at a failing step: %v, want boom", err)
	}
	if took := time.Since(start); took < time.Millisecond {
		t.Errorf("the delay was not kept: %v", took)
	}
	f.Fail(reconcile.CreatePod, nil)
	f.Delay(reconcile.CreatePod, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.at(ctx, reconcile.CreatePod, box); !errors.Is(err, context.Canceled) {
		t.Errorf("a delay outlived its context: %v", err)
	}
}
