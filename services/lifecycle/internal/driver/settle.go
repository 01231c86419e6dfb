package driver

import (
	"context"
	"time"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

const (
	// settleLimit bounds the wait for the view. The reclaim gives a whole stop 30 s (contract 2.12).
	settleLimit = 10 * time.Second
	// The view is looked at after leastLook, and then less and less often, until mostLook.
	leastLook, mostLook = 5 * time.Millisecond, 200 * time.Millisecond
)

// settles waits until what the gateway is told of the sandbox fits: supervisorctl reads the cluster itself, and the view may be a moment
// behind it. A sandbox of which nothing can be told is not waited for, and neither is a view that is not current: it tells nobody that it is.
// False says that it did not come to fit in time.
func (d *Driver) settles(ctx context.Context, id string, fits func(*computev1.DriverSandbox) bool) bool {
	ctx, cancel := limit(ctx, settleLimit)
	defer cancel()
	for wait := leastLook; ; wait = min(2*wait, mostLook) {
		told, err := d.deps.View.Get(ctx, id)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil || d.deps.View.Check(ctx) != nil || told.GetStatus().GetDeleting() || fits(told):
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// suspended reports whether a gateway takes the sandbox for stopped (contract 2.10).
func suspended(told *computev1.DriverSandbox) bool {
	for _, c := range told.GetStatus().GetConditions() {
		if c.GetType() == sandboxapi.ConditionSuspended {
			return c.GetStatus() == "True"
		}
	}
	return false
}

func awake(told *computev1.DriverSandbox) bool { return !suspended(told) }
