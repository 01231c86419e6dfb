package reconcile

import (
	"errors"
	"fmt"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

// Dialect says which controller is imitated. The zero value is refused by [Dialect.Validate]; start from one of the
// functions below and change a field where a test needs a mixture.
type Dialect struct {
	// Version is the API version that the controller reads and writes.
	Version api.Version
	// ReportSuspended makes the controller report the Suspended condition at all. The oldest v1alpha1 controllers do not
	// (contract 7.10).
	ReportSuspended bool
	// KeepSuspended leaves the Suspended condition as it was when the Sandbox resumes, with the generation of the
	// suspension; otherwise it becomes False/NotSuspended.
	KeepSuspended bool
	// TwoReasons makes Suspended say only PodTerminated and PodNotTerminated.
	TwoReasons bool
	// MirrorPodScheduled makes the controller copy the Pod's PodScheduled condition.
	MirrorPodScheduled bool
}

// Newest imitates the newest controller of contract 8.3.
func Newest() Dialect {
	return Dialect{Version: api.V1beta1, ReportSuspended: true, MirrorPodScheduled: true}
}

// OlderV1beta1 imitates a v1beta1 controller that never takes Suspended=True back on resume (contract 8.3,
// 14.3) and has no PodScheduled.
func OlderV1beta1() Dialect {
	return Dialect{Version: api.V1beta1, ReportSuspended: true, KeepSuspended: true}
}

// V1alpha1 imitates a v1alpha1 controller: two reasons, no PodScheduled, and Suspended left behind on resume.
func V1alpha1() Dialect {
	return Dialect{Version: api.V1alpha1, ReportSuspended: true, KeepSuspended: true, TwoReasons: true}
}

// V1alpha1WithoutSuspended imitates a v1alpha1 controller that has no Suspended condition, so that only the Pod's absence
// tells that a stop is complete (contract 7.10).
func V1alpha1WithoutSuspended() Dialect { return Dialect{Version: api.V1alpha1} }

// Validate reports a dialect that no controller speaks.
func (d Dialect) Validate() error {
	if d.Version != api.V1alpha1 && d.Version != api.V1beta1 {
		return fmt.Errorf("dialect version %q is unknown: start from reconcile.Newest, OlderV1beta1 or V1alpha1", d.Version)
	}
	if !d.ReportSuspended && (d.KeepSuspended || d.TwoReasons) {
		return errors.New("dialect keeps or words the Suspended condition without reporting it: set ReportSuspended too")
	}
	return nil
}
