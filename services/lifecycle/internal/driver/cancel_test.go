package driver_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
)

// cancelledAt is a context that ends when the step is taken for the nth time, before it is done.
func (w *world) cancelledAt(t *testing.T, step string, nth int) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	w.before[step] = func() {
		if nth--; nth == 0 {
			cancel()
		}
	}
	return ctx
}

const restarted = "restart g0000000000000001"

// A start may be cancelled at any of its steps. Before supervisorctl is asked nothing has begun. While it is asked nobody knows, and a run
// that may be an earlier call's is not ended. What is cancelled later is a run that is known: one that could not be judged once more is
// ended, by its name, although its caller is gone; one that was judged stands. Repeated, the start succeeds.
func TestStartThatIsCancelled(t *testing.T) {
	const look = "look " + attached
	cases := []struct {
		step     string
		nth      int
		code     codes.Code
		begun    bool
		released int
	}{
		{"find", 1, codes.Canceled, false, 0},
		{"enter", 1, codes.Canceled, false, 0},
		{look, 1, codes.Canceled, false, 0},
		{"still", 1, codes.Canceled, true, 0}, // asks nobody and so does not notice; supervisorctl does
		{restarted, 1, codes.Canceled, true, 0},
		{"still", 2, codes.Canceled, true, 1},
		{look, 2, codes.Canceled, true, 1},
		{"get", 1, codes.OK, true, 0},
	}
	for _, c := range cases {
		t.Run("at "+c.step, func(t *testing.T) {
			w := base(t)
			w.looks[attached] = claim("claim-1")
			created(t, w, attaching(t))
			w.identity.SupervisorUid = "uid-8"
			var log strings.Builder
			w.log = &log
			d := w.driver(t)
			ctx := w.cancelledAt(t, c.step, c.nth)
			if _, err := d.StartSandbox(ctx, start()); status.Code(err) != c.code {
				t.Errorf("error %v, want %s", err, c.code)
			}
			if begun := slices.Contains(w.steps(), restarted); begun != c.begun || len(w.released) != c.released || len(w.objects) != 1 ||
				strings.Contains(log.String(), "the run is ended") != (c.released > 0) {
				t.Errorf("%q, released %q, %d objects: %s", w.steps(), w.released, len(w.objects), log.String())
			}
			got, err := d.StartSandbox(t.Context(), start())
			if err != nil || got.GetRuntimeIdentity() != "kubernetes://team/uid-1/uid-8" || w.suspended {
				t.Errorf("repeated: identity %q, error %v, suspended %t", got.GetRuntimeIdentity(), err, w.suspended)
			}
		})
	}
}

// A stop may be cancelled at any of its steps: it does not say that it is over, and the next one goes on from there.
func TestStopThatIsCancelled(t *testing.T) {
	const release = "release " + uid
	for step, begun := range map[string]bool{"find": false, release: true, "get": true} {
		t.Run("at "+step, func(t *testing.T) {
			w := base(t)
			d := created(t, w, wish())
			ctx := w.cancelledAt(t, step, 1)
			if _, err := d.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id}); status.Code(err) != codes.Canceled {
				t.Errorf("error %v", err)
			}
			if slices.Contains(w.steps(), release) != begun || len(w.objects) != 1 {
				t.Errorf("%q, %d objects", w.steps(), len(w.objects))
			}
			if _, err := d.StopSandbox(t.Context(), &computev1.StopSandboxRequest{SandboxId: id}); err != nil || !w.suspended {
				t.Errorf("repeated: error %v, suspended %t", err, w.suspended)
			}
		})
	}
}

// A delete may be cancelled at any of its steps. It says that the sandbox goes only when that is so, and the next one finds what is left.
func TestDeleteThatIsCancelled(t *testing.T) {
	const remove, gone = "remove " + namespace + "/box " + uid, "delete " + uid
	cases := map[string]struct {
		code   codes.Code
		stays  bool
		last   string // the last step that was taken
		absent bool   // there is no Sandbox, and something left of it
	}{
		"find":      {codes.Canceled, true, "find", false},
		remove:      {codes.Canceled, true, remove, false},
		gone:        {codes.Canceled, true, gone, false},
		"pod gone":  {codes.OK, false, "pod gone", false},
		"leftovers": {codes.Canceled, false, remove, true}, // what was found is tried
	}
	for step, c := range cases {
		t.Run("at "+step, func(t *testing.T) {
			w := base(t)
			d := created(t, w, wish())
			if c.absent {
				w.objects, w.left = nil, []cluster.Leftover{{Namespace: namespace, Sandbox: "box", UID: uid}}
			}
			got, err := d.DeleteSandbox(w.cancelledAt(t, step, 1), &computev1.DeleteSandboxRequest{SandboxId: id})
			if status.Code(err) != c.code || got.GetDeleted() != (c.code == codes.OK) {
				t.Errorf("deleted %t, error %v, want %s", got.GetDeleted(), err, c.code)
			}
			if stays := len(w.objects) == 1; stays != c.stays || w.steps()[len(w.steps())-1] != c.last {
				t.Errorf("%q, %d objects", w.steps(), len(w.objects))
			}
			w.done = nil
			got, err = d.DeleteSandbox(t.Context(), &computev1.DeleteSandboxRequest{SandboxId: id})
			if err != nil || got.GetDeleted() != c.stays || len(w.objects) != 0 || c.absent && !slices.Contains(w.steps(), remove) {
				t.Errorf("repeated: deleted %t, error %v, %q, %d objects", got.GetDeleted(), err, w.steps(), len(w.objects))
			}
		})
	}
}
