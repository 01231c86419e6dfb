package gateway

import (
	"time"

	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// see applies a snapshot to a row (contract 2.8, 2.11). The error says what cannot be read.
func (g *Gateway) see(row *record.Row, found *computev1.DriverSandbox) error {
	read, err := phase.FromDriver(found.GetStatus())
	if err != nil {
		return err
	}
	if found.GetName() != "" {
		row.Name = found.GetName()
	}
	status := row.Backend
	if read.Known {
		status = read
	}
	g.judge(row, status)
	return nil
}

// judge lets the row follow the driver's status and the supervisor's session.
func (g *Gateway) judge(row *record.Row, status phase.Status) {
	public, verdict := phase.Next(row.Phase, row.Cause, phase.Observation{
		Status: status, ReportsReadiness: g.reportsReadiness(), Connected: g.connected(*row), GPU: wantsGPU(row.Spec),
	})
	switch verdict {
	case phase.Late:
		g.emit(about(*row, Ignored, "ProvisioningDeadlineElapsed", "it became ready behind its deadline"))
		return
	case phase.Ignored:
		return
	default:
	}
	if verdict == phase.Moved {
		row.Before = nil // whatever was under way has come to something
	}
	row.Phase, row.Conditions, row.Backend, row.Cause, row.Message = public.Phase, public.Conditions, status, phase.NoCause, ""
	switch public.Phase {
	case phase.Error:
		ready := phase.Status{Conditions: public.Conditions}.Find("Ready")
		row.Message, row.Deadline = ready.Reason+": "+ready.Message, time.Time{}
	case phase.Provisioning, phase.Starting:
	default:
		row.Deadline = time.Time{}
	}
}

func (g *Gateway) reportsReadiness() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.live != nil && g.live.driver.Capabilities().GetDriverReportsRuntimeReadiness()
}

func wantsGPU(spec []byte) bool {
	var read computev1.DriverSandboxSpec
	return proto.Unmarshal(spec, &read) == nil && read.GetResourceRequirements().GetGpu() != nil
}
