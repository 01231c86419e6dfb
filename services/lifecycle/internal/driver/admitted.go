package driver

import (
	"context"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
)

// admitted is what a sandbox is attached to, as it was judged: by uid, in record.
type admitted struct {
	workspace string
	attached  []inventory.Attachment
	record    inventory.Record
}

// admit looks every attachment up and judges it (contract 11.5).
func (d *Driver) admit(ctx context.Context, attached []inventory.Attachment, workspace string) (inventory.Record, error) {
	record := make(inventory.Record, len(attached))
	for _, a := range attached {
		uid, decision := d.deps.Inventory.Judge(a, workspace, d.deps.Cluster.Look(ctx, a))
		if err := grantedIn(ctx, decision); err != nil {
			return nil, err
		}
		record[a] = uid
	}
	return record, nil
}

// same judges every attachment by the cluster as it is now, and refuses one that is another than was recorded.
func (d *Driver) same(ctx context.Context, a admitted) error {
	now, err := d.admit(ctx, a.attached, a.workspace)
	if err != nil {
		return err
	}
	return granted(a.record.Same(now))
}

// stillAdmitted asks once more what a run rests on, when its Pods are there and nobody has been told of it (contract 7.2 step 19): to raise it may take
// minutes, in which the namespace may leave the list and a claim be made anew under its name.
func (d *Driver) stillAdmitted(ctx context.Context, in call, place workspaces.Place, a admitted) error {
	defer d.step(in, "readmit")()
	if err := d.deps.Workspaces.Still(place); err != nil {
		return err
	}
	return d.same(ctx, a)
}
