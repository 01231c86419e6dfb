package conformance

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

func deleteChecks() []Check {
	const leak = "the row is removed and the sandbox stays: it leaks, and runs on"
	return []Check{
		{
			ID: "delete.nothing", Section: "2.7", Required: true,
			Says: "a delete without a sandbox_id is INVALID_ARGUMENT", Breaks: "the caller learns nothing of use",
			run: func(ctx context.Context, p *probe) error {
				_, err := p.driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{})
				return expect("DeleteSandbox", err, codes.InvalidArgument)
			},
		},
		{
			ID: "delete.absent", Section: "2.6", Required: true, run: deletesAbsent,
			Says:   "the delete of an absent sandbox is OK with deleted = false",
			Breaks: "the row waits for an event that never comes, or is restored",
		},
		{
			ID: "delete.deletes", Section: "2.6", Required: true, run: deletes,
			Says:   "the delete of a sandbox is OK with deleted = true, and nothing is left of it",
			Breaks: leak,
		},
		{
			ID: "delete.stopped", Section: "2.6", Required: true, run: deletesStopped,
			Says:   "a stopped sandbox can be deleted as one that runs",
			Breaks: leak,
		},
		{
			ID: "delete.early", Section: "2.6", Required: true, run: deletesEarly,
			Says:   "a sandbox that is not Ready yet can be deleted, whatever the platform reports meanwhile: false means absence, proven",
			Breaks: leak,
		},
		{
			ID: "delete.conflict", Section: "7.12", Required: true, needs: []ability{canTouch}, run: deletesTouched,
			Says:   "a conflict with another's write is no absence: the delete is tried again, and deleted is true",
			Breaks: leak,
		},
		{
			ID: "delete.concurrent", Section: "2.6", Required: true, run: deletesTogether,
			Says:   "many deletes at once are all OK, at least one with true, and nothing is left",
			Breaks: leak,
		},
		{
			ID: "delete.during-create", Section: "2.6", Required: true, run: deletesDuringCreate,
			Says:   "a create and a delete at once leave a sandbox that the next delete removes, or none",
			Breaks: leak,
		},
	}
}

func deletesAbsent(ctx context.Context, p *probe) error {
	b, err := p.oneDeleted(ctx)
	if err != nil {
		return err
	}
	for _, id := range []string{b.id, uuid()} {
		deleted, err := p.delete(ctx, id)
		if err != nil {
			return err
		}
		if deleted {
			return errors.New("deleted is true")
		}
	}
	return nil
}

// ends deletes a sandbox that is known to be there, and waits until nothing is left.
func (p *probe) ends(ctx context.Context, id string) error {
	deleted, err := p.delete(ctx, id)
	if err == nil && !deleted {
		err = errors.New("deleted is false, and the sandbox was there")
	}
	return errors.Join(err, p.gone(ctx, id))
}

func deletes(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	return p.ends(ctx, b.id)
}

func deletesStopped(ctx context.Context, p *probe) error {
	b, err := p.stopped(ctx)
	if err != nil {
		return err
	}
	return p.ends(ctx, b.id)
}

func deletesEarly(ctx context.Context, p *probe) error {
	const sandboxes = 3
	return together(sandboxes, func(int) error {
		b, err := p.create(ctx)
		if err != nil {
			return err
		}
		return p.ends(ctx, b.id)
	})
}

// deletesTouched deletes while the platform's record is written to without a pause.
func deletesTouched(ctx context.Context, p *probe) error {
	platform, ok := p.target.(Toucher)
	if !ok {
		return errors.New("the target cannot touch a sandbox")
	}
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	if err := platform.Touch(ctx, p.workspace, b.id); err != nil {
		return fmt.Errorf("touch the sandbox: %w", err)
	}
	touching, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for touching.Err() == nil && platform.Touch(touching, p.workspace, b.id) == nil {
		}
	}()
	deleted, err := p.delete(ctx, b.id)
	stop()
	<-ended
	if err == nil && !deleted {
		err = errors.New("deleted is false, and the sandbox was there")
	}
	return errors.Join(err, p.gone(ctx, b.id))
}

func deletesTogether(ctx context.Context, p *probe) error {
	b, err := p.create(ctx)
	if err != nil {
		return err
	}
	const callers = 4
	deleted := make([]bool, callers)
	err = together(callers, func(i int) (err error) {
		deleted[i], err = p.delete(ctx, b.id)
		return err
	})
	some := false
	for _, one := range deleted {
		some = some || one
	}
	if err == nil && !some {
		err = errors.New("deleted is false in every answer, and the sandbox was there")
	}
	return errors.Join(err, p.gone(ctx, b.id))
}

func deletesDuringCreate(ctx context.Context, p *probe) error {
	wish, err := p.wish()
	if err != nil {
		return err
	}
	made := make(chan error, 1)
	go func() {
		_, err := p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
		made <- err
	}()
	_, err = p.delete(ctx, wish.GetId())
	<-made // whatever came of it: the sandbox is there, or it is not
	if err != nil {
		return err
	}
	_, err = p.delete(ctx, wish.GetId())
	return errors.Join(err, p.gone(ctx, wish.GetId()))
}
