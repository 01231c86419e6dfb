package conformance

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

func evidenceChecks() []Check {
	return []Check{{
		ID: "get.evidence", Section: "7.14", run: proves,
		Says:   "a sandbox that is Ready has resolved_identity, the same in each run, and fence_evidence, which is of the present run",
		Breaks: "nobody can tell as whom a sandbox runs, and what keeps it from the network",
	}}
}

func proves(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	first, err := p.proof(ctx, b.id)
	if err != nil {
		return err
	}
	if err := errors.Join(p.stop(ctx, b.id), p.start(ctx, b), p.reach(ctx, b.id, phase.Ready)); err != nil {
		return err
	}
	second, err := p.proof(ctx, b.id)
	switch {
	case err != nil:
		return fmt.Errorf("after another start: %w", err)
	case !proto.Equal(first.GetResolvedIdentity(), second.GetResolvedIdentity()):
		return fmt.Errorf("resolved_identity was %v, and after another start %v", first.GetResolvedIdentity(), second.GetResolvedIdentity())
	case proto.Equal(first.GetFenceEvidence(), second.GetFenceEvidence()):
		return errors.New("fence_evidence is that of the run before")
	}
	return nil
}

// proof is a report that has both.
func (p *probe) proof(ctx context.Context, id string) (*computev1.DriverSandboxStatus, error) {
	got, err := p.get(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("GetSandbox: %w", err)
	}
	identity, fence := got.GetStatus().GetResolvedIdentity(), got.GetStatus().GetFenceEvidence()
	switch {
	case identity.GetUid() == 0 || identity.GetGid() == 0 || identity.GetSource() == "" || identity.GetResourceDigest() == "":
		return nil, fmt.Errorf("resolved_identity is %v", identity)
	case fence.GetGeneration() == "" || fence.GetEvidenceDigest() == "" || len(fence.GetResourceClaims()) == 0:
		return nil, fmt.Errorf("fence_evidence is %v", fence)
	}
	return got.GetStatus(), nil
}
