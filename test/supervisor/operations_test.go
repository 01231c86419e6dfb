package supervisor_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// second is the run that restarts of a Box are for: of the same generation, so its Secrets have the names of the first run's.
func second(b *supervisor.Box) supervisor.Run {
	return supervisor.Run{Generation: b.Run.Generation, Session: strings.Replace(b.Run.Session, b.Run.Session[:8], "00000002", 1), Epoch: 2}
}

func provisioned(ctx context.Context, c *supervisor.Client, b *supervisor.Box) error {
	_, err := c.Provision(ctx, b, b.Run)
	return err
}

func released(ctx context.Context, c *supervisor.Client, b *supervisor.Box) error {
	_, err := c.Release(ctx, b, supervisor.Run{})
	return err
}

func each(steps ...func(context.Context, *supervisor.Client, *supervisor.Box) error) func(context.Context, *supervisor.Client, *supervisor.Box) error {
	return func(ctx context.Context, c *supervisor.Client, b *supervisor.Box) error {
		for _, step := range steps {
			if err := step(ctx, c, b); err != nil {
				return err
			}
		}
		return nil
	}
}

func stopped(ctx context.Context, s *supervisor.Site, b *supervisor.Box) error {
	now, err := s.History.Look(ctx, b.Namespace)
	if err != nil {
		return err
	}
	if left := now.Companions(); len(left) > 1 || len(left) == 1 && left[0] != supervisor.Services+"/"+b.ServiceName() {
		return fmt.Errorf("after a stop there is %v", left)
	}
	return settled(ctx, s, b)
}
