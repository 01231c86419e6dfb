package conformance

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

func stopChecks() []Check {
	return []Check{
		{
			ID: "stop.nothing", Section: "2.7", Required: true,
			Says: "a stop without a sandbox_id is INVALID_ARGUMENT", Breaks: "the caller learns nothing of use",
			run: func(ctx context.Context, p *probe) error {
				_, err := p.driver.StopSandbox(ctx, &computev1.StopSandboxRequest{})
				return expect("StopSandbox", err, codes.InvalidArgument)
			},
		},
		{
			ID: "stop.absent", Section: "7.10", Required: true,
			Says:   "the stop of an absent sandbox is NOT_FOUND",
			Breaks: "the reclaim after a provisioning timeout is repeated for ever",
			run: func(ctx context.Context, p *probe) error {
				_, err := p.driver.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: uuid()})
				return expect("StopSandbox", err, codes.NotFound)
			},
		},
		{
			ID: "stop.over", Section: "2.6", Required: true, run: stopsAll,
			Says:   "when StopSandbox is OK the stop is over: the report says Suspended, and nothing of the run is there",
			Breaks: "the sandbox counts as Stopped while its process still runs, and a start meets it",
		},
		{
			ID: "stop.again", Section: "2.12", Required: true, run: stopsAgain,
			Says:   "the stop of a stopped sandbox is OK",
			Breaks: "a gateway that lost the answer restores the phase before the stop",
		},
		{
			ID: "stop.concurrent", Section: "2.12", Required: true, run: stopsTogether,
			Says:   "many stops at once all end well",
			Breaks: "the reclaim and a caller get in each other's way, and the stop counts as failed",
		},
		{
			ID: "stop.early", Section: "2.12", Required: true, run: stopsEarly,
			Says:   "a sandbox that is not Ready yet can be stopped, and started again",
			Breaks: "the reclaim after a provisioning timeout fails",
		},
	}
}

// over is nil when the driver's report means that the sandbox is stopped, and the platform has nothing of its run.
func (p *probe) over(ctx context.Context, id string) error {
	got, err := p.phase(ctx, id)
	if err == nil && got != phase.Stopped {
		err = fmt.Errorf("the report means %s right after the stop", got)
	}
	platform, ok := p.target.(Inspector)
	if err != nil || !ok {
		return err
	}
	runs, err := platform.Runs(ctx, p.workspace, id)
	if err == nil && runs {
		err = errors.New("the run is still there right after the stop")
	}
	return err
}

func stopsAll(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	return errors.Join(p.stop(ctx, b.id), p.over(ctx, b.id))
}

func stopsAgain(ctx context.Context, p *probe) error {
	b, err := p.stopped(ctx)
	if err != nil {
		return err
	}
	return errors.Join(p.stop(ctx, b.id), p.over(ctx, b.id))
}

func stopsTogether(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	const callers = 4
	return errors.Join(together(callers, func(int) error { return p.stop(ctx, b.id) }), p.over(ctx, b.id))
}

func stopsEarly(ctx context.Context, p *probe) error {
	b, err := p.create(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(p.stop(ctx, b.id), p.over(ctx, b.id)); err != nil {
		return err
	}
	return errors.Join(p.start(ctx, b), p.reach(ctx, b.id, phase.Ready))
}
