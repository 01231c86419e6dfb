package driver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/driver"
)

// TestViewBehind: whoever asks after a stop or a start is told the state after it, however late the view learns of that. A stop is no
// success before; a start has an identity, which is not withheld.
func TestViewBehind(t *testing.T) {
	stop := func(ctx context.Context, d *driver.Driver) error {
		_, err := d.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id})
		return err
	}
	begin := func(ctx context.Context, d *driver.Driver) error {
		got, err := d.StartSandbox(ctx, start())
		if err == nil && got.GetRuntimeIdentity() == "" {
			t.Error("a start without an identity")
		}
		return err
	}
	const never = 1 << 30
	cases := map[string]struct {
		call   func(context.Context, *driver.Driver) error
		behind int
		code   codes.Code
		stale  error
	}{
		"a stop, known at once":      {call: stop},
		"a stop, known later":        {call: stop, behind: 12},
		"a stop, known too late":     {call: stop, behind: never, code: codes.Unavailable},
		"a stop, the view is stale":  {call: stop, behind: never, stale: errors.New("the watch is broken")},
		"a start, known at once":     {call: begin},
		"a start, known later":       {call: begin, behind: 12},
		"a start, not known at all":  {call: begin, behind: never},
		"a start, the view is stale": {call: begin, behind: never, stale: errors.New("the watch is broken")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := base(t)
				d := created(t, w, wish())
				w.suspended, w.behind, w.stale = true, c.behind, c.stale
				if err := c.call(t.Context(), d); status.Code(err) != c.code {
					t.Errorf("error %v, want %s", err, c.code)
				}
				if c.behind != never && w.behind != 0 {
					t.Errorf("it is answered while the view is behind by %d", w.behind)
				}
			})
		})
	}
}
