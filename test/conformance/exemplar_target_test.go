package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
)

func (e *exemplar) Conn() grpc.ClientConnInterface { return e.conn }

func (e *exemplar) Workspace(context.Context) (string, error) { return "team", nil }

func (e *exemplar) Forbidden(context.Context) (string, error) { return forbidden, nil }

func (e *exemplar) Bundle(run credentials.Run) (secret.Value, error) { return e.authority.Bundle(run) }

// Patience is short for a driver that is waited for in vain.
func (e *exemplar) Patience() time.Duration { return e.patience }

func (e *exemplar) Reset(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.boxes) > 0 {
		return fmt.Errorf("%d sandboxes are left", len(e.boxes))
	}
	return nil
}

func (e *exemplar) Objects(_ context.Context, workspace, id string) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for one, b := range e.boxes {
		if one == id || id == "" && b.workspace == workspace {
			all = append(all, "box/"+one)
		}
	}
	for one := range e.leaked {
		if one == id || id == "" && one == workspace {
			all = append(all, "leaked/"+one)
		}
	}
	slices.Sort(all)
	return all, nil
}

func (e *exemplar) Runs(_ context.Context, _, id string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[id], nil
}

func (e *exemplar) Disturb(context.Context) error {
	e.kill()
	if e.flaw.reborn != nil {
		e.flaw.reborn(e)
	}
	e.serve()
	return nil
}

func (e *exemplar) Touch(_ context.Context, _, id string) error {
	if e.box(id) == nil {
		return errAbsent
	}
	return nil
}

func (e *exemplar) Credential(_ context.Context, _, id string) (secret.Value, error) {
	b := e.box(id)
	if b == nil {
		return secret.Value{}, errAbsent
	}
	return secret.New([]byte(b.credential)), nil
}
