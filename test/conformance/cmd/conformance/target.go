package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/conformance"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
)

// target is a driver of which only the socket is known.
type target struct {
	conn       grpc.ClientConnInterface
	authority  *credentials.Authority
	workspaces []string
	patience   time.Duration
	next       atomic.Int64

	mu   sync.Mutex
	made map[string]bool // the ids of the bundles that were made
}

// closed is one with a workspace that may not be used.
type closed struct {
	*target
	forbidden string
}

// Forbidden implements conformance.Forbidder.
func (c *closed) Forbidden(context.Context) (string, error) { return c.forbidden, nil }

func newTarget(conn grpc.ClientConnInterface, o options) (conformance.Target, error) {
	prefix, err := contract.ParsePrefix(o.prefix)
	if err != nil {
		return nil, err
	}
	conn, err = contract.NewConn(conn, prefix)
	if err != nil {
		return nil, err
	}
	authority, err := newAuthority(o.gatewayID)
	if err != nil {
		return nil, err
	}
	t := &target{conn: conn, authority: authority, workspaces: o.workspaces, patience: o.patience, made: map[string]bool{}}
	if o.forbidden == "" {
		return t, nil
	}
	return &closed{target: t, forbidden: o.forbidden}, nil
}

// Conn implements conformance.Target.
func (t *target) Conn() grpc.ClientConnInterface { return t.conn }

// Patience implements conformance.Patient.
func (t *target) Patience() time.Duration { return t.patience }

// Workspace gives one after the other.
func (t *target) Workspace(context.Context) (string, error) {
	return t.workspaces[int(t.next.Add(1))%len(t.workspaces)], nil
}

// Bundle notes which sandbox it is for.
func (t *target) Bundle(run credentials.Run) (secret.Value, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made[run.SandboxID] = true
	return t.authority.Bundle(run)
}

// Reset deletes those of the suite's sandboxes that the driver still has. It touches no other.
func (t *target) Reset(ctx context.Context) error {
	driver := computev1.NewComputeDriverClient(t.conn)
	list, err := driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	if err != nil {
		return fmt.Errorf("list the driver's sandboxes: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var problems []error
	for _, one := range list.GetSandboxes() {
		if !t.made[one.GetId()] {
			continue
		}
		if _, err := driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: one.GetId()}); err != nil {
			problems = append(problems, fmt.Errorf("delete sandbox %s: %w", one.GetId(), err))
		}
	}
	return errors.Join(problems...)
}
