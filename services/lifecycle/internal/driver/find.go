package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/observe"
	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// find gives the Sandboxes with the id, from a consistent read. Of one that cannot be understood it gives the metadata, which is enough
// to stop, to delete and to be in the way.
func (d *Driver) find(ctx context.Context, id string) ([]sandboxapi.Object, error) {
	found, err := d.deps.Finder.Find(ctx, id)
	if err != nil && (len(found) == 0 || !errors.Is(err, observe.ErrUnreadable)) {
		return nil, fmt.Errorf("look for sandbox %s: %w", id, err)
	}
	return found, nil
}

// one is the Sandbox with the id.
func (d *Driver) one(ctx context.Context, id string) (*sandboxapi.Object, error) {
	found, err := d.find(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, d.absent(id)
	case len(found) > 1:
		return nil, ambiguous(found, id)
	}
	return &found[0], nil
}

// meant is the Sandbox that a start is for. Where several have the id, the identity that the gateway keeps says which is its own.
func (d *Driver) meant(ctx context.Context, id string, expected runtimeid.Identity) (*sandboxapi.Object, error) {
	found, err := d.find(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range found {
		o := &found[i]
		switch {
		case o.Namespace != expected.Namespace() || o.UID != expected.SandboxUID():
		case o.Mode == 0: // only its metadata could be read
			return nil, fmt.Errorf("start Sandbox %s/%s: %w", o.Namespace, o.Name, observe.ErrUnreadable)
		default:
			return o, nil
		}
	}
	switch len(found) {
	case 0:
		return nil, d.absent(id)
	case 1:
		return nil, unexpected("it names Sandbox %s in namespace %s, and the one with the id is %s in %s",
			expected.SandboxUID(), expected.Namespace(), found[0].UID, found[0].Namespace)
	default:
		return nil, ambiguous(found, id)
	}
}

func (d *Driver) absent(id string) error {
	return refuse(verdict.SandboxAbsent, "sandbox.find", "no Sandbox of gateway %s has the id %s", d.kubernetes.GatewayID, bounded(id))
}

func ambiguous(found []sandboxapi.Object, id string) error {
	return refuse(verdict.SandboxAmbiguous, "sandbox.find", "Sandboxes %s/%s and %s/%s have the id %s",
		found[0].Namespace, found[0].Name, found[1].Namespace, found[1].Name, id)
}
