package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

func crashChecks() []Check {
	return []Check{
		{
			ID: "crash.absence", Section: "2.9", Required: true, Alone: true, needs: []ability{canDisturb}, run: comesBack,
			Says:   "a driver that comes up answers with an error until it knows: it never takes a sandbox for absent, and no list is short",
			Breaks: "a restart of the driver prunes sandboxes that run",
		},
		{
			ID: "crash.policy", Section: "2.4", Required: true, Alone: true, needs: []ability{canDisturb}, run: keepsPolicy,
			Says:   "the policy is the same after a restart, byte for byte",
			Breaks: "launches are refused until the gateway is restarted too",
		},
		{
			ID: "crash.create", Section: "2.6", Required: true, Alone: true, needs: []ability{canDisturb}, run: diesCreating,
			Says:   "what a create left that died with its driver is removed by the next delete, or by itself",
			Breaks: "the row is removed and the sandbox stays: it leaks",
		},
		{
			ID: "crash.stop", Section: "2.12", Required: true, Alone: true, needs: []ability{canDisturb}, run: diesStopping,
			Says:   "a stop that died with its driver, wherever it was, is resumed by the next one, from what is durable; when that is OK the run is over",
			Breaks: "the sandbox stays in Stopping, or counts as Stopped while it runs",
		},
	}
}

func disturb(ctx context.Context, p *probe) error {
	d, ok := p.target.(Disturber)
	if !ok {
		return errors.New("the target's driver cannot be killed")
	}
	if err := d.Disturb(ctx); err != nil {
		return fmt.Errorf("kill the driver and start it again: %w", err)
	}
	return nil
}

// truthful asks for a sandbox that is there. The error is that of an answer which is not true; no answer is none.
func (p *probe) truthful(ctx context.Context, b *box) (answered bool, err error) {
	_, get := p.get(ctx, b.id)
	switch status.Code(get) {
	case codes.OK, codes.Unavailable, codes.Internal, codes.Canceled, codes.DeadlineExceeded:
	default:
		return false, expect("GetSandbox of a sandbox that is there", get, codes.OK, codes.Unavailable, codes.Internal)
	}
	list, failed := p.driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	if failed != nil {
		return false, nil //nolint:nilerr // no answer is no untruth
	}
	for _, one := range list.GetSandboxes() {
		if one.GetId() == b.id {
			return get == nil, nil
		}
	}
	return false, fmt.Errorf("the list of %d lacks a sandbox that is there", len(list.GetSandboxes()))
}

// comesBack asks without a pause from before the driver dies until it has answered everything again.
func comesBack(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	back := make(chan error, 1)
	go func() { back <- disturb(ctx, p) }()
	for restarted := false; ; {
		select {
		case err := <-back:
			if restarted = true; err != nil {
				return err
			}
		case <-ctx.Done():
			err := fmt.Errorf("the driver did not answer everything again (started again: %t)", restarted)
			if !restarted {
				err = errors.Join(err, <-back)
			}
			return err
		case <-time.After(time.Millisecond):
		}
		answered, err := p.truthful(ctx, b)
		if err != nil && !restarted {
			err = errors.Join(err, <-back)
		}
		if err != nil {
			return err
		}
		if answered && restarted {
			return p.unharmed(ctx, b)
		}
	}
}

func keepsPolicy(ctx context.Context, p *probe) error {
	before, err := p.driver.GetCapabilities(ctx, handshake())
	if err != nil {
		return fmt.Errorf("GetCapabilities: %w", err)
	}
	if err := disturb(ctx, p); err != nil {
		return err
	}
	var after *computev1.GetCapabilitiesResponse
	err = p.eventually(ctx, "the driver answers again", func() (err error) {
		after, err = p.driver.GetCapabilities(ctx, handshake())
		return err
	})
	if err == nil && after.GetResourceAdmissionPolicy() != before.GetResourceAdmissionPolicy() {
		err = fmt.Errorf("before %q, after %q", short(before.GetResourceAdmissionPolicy()), short(after.GetResourceAdmissionPolicy()))
	}
	return err
}

// during kills the driver while a call is under way, after a time.
func during(ctx context.Context, p *probe, after time.Duration, call func()) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		call()
	}()
	select {
	case <-ended:
	case <-time.After(after):
	}
	err := disturb(ctx, p)
	<-ended
	return err
}

func diesCreating(ctx context.Context, p *probe) error {
	began := time.Now()
	if _, err := p.create(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	wish, err := p.wish()
	if err != nil {
		return err
	}
	err = during(ctx, p, took/2, func() {
		_, _ = p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish}) // it has no answer, or one that is lost
	})
	if err != nil {
		return err
	}
	err = p.eventually(ctx, "it can be deleted", func() error { _, err := p.delete(ctx, wish.GetId()); return err })
	return errors.Join(err, p.gone(ctx, wish.GetId()))
}

func diesStopping(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := p.stop(ctx, b.id); err != nil {
		return err
	}
	took := time.Since(began)
	for _, part := range []int{1, points - 1} {
		if err := errors.Join(p.start(ctx, b), p.reach(ctx, b.id, phase.Ready)); err != nil {
			return err
		}
		if err := during(ctx, p, took/points*time.Duration(part), func() { _ = p.stop(ctx, b.id) }); err != nil {
			return err
		}
		err := p.eventually(ctx, "the stop can be repeated", func() error { return p.stop(ctx, b.id) })
		if err == nil {
			err = p.over(ctx, b.id)
		}
		if err != nil {
			return fmt.Errorf("after a driver that died at %d/%d of a stop: %w", part, points, err)
		}
	}
	return nil
}
