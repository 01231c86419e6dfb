package probe

import (
	"errors"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Result is what one probe found. The zero Result found nothing.
type Result struct {
	Namespace string
	// Decision is granted when the fence is enforced, denied when it is not, unknown else.
	Decision verdict.Decision
	// Node is the one that the canaries ran on; empty when none did.
	Node string
	// Made are the names of the policies that the probe made.
	Made []string
	// Workload and Supervisor are the reports of the canaries; nil when there is none.
	Workload, Supervisor *canary.Report
	// Began and Took are the time of the probe.
	Began time.Time
	Took  time.Duration
	// LeftOver says which Pods of this or former probes could not be removed, and why.
	LeftOver []string
}

// Enforced is how a Result is called.
func (r *Result) Enforced() string {
	switch r.Decision.Outcome() {
	case verdict.Granted:
		return "enforced"
	case verdict.Denied:
		return "not enforced"
	default:
		return "unknown"
	}
}

// SetIn is when the last connection of the workload canary was opened, after its start: the time that enforcement took. False when
// nothing was opened, or it is not known.
func (r *Result) SetIn() (time.Duration, bool) {
	var last int64
	if r.Workload != nil {
		for _, s := range r.Workload.Targets {
			last = max(last, s.LastOpen)
		}
	}
	return time.Duration(last) * time.Millisecond, last > 0
}

// setback is an error that has its decision.
type setback struct{ decision verdict.Decision }

func (s setback) Error() string { return s.decision.Explain() }

func fail(reason verdict.Reason, step, format string, args ...any) error {
	d, _ := refuse(reason, step, format, args...)
	return setback{d}
}

// decisionOf is the decision of what went wrong; one that is no setback came from the cluster.
func decisionOf(err error, step string) verdict.Decision {
	var s setback
	switch {
	case errors.As(err, &s):
		return s.decision
	case errors.Is(err, cluster.ErrRefused), errors.Is(err, cluster.ErrAbsent):
		return verdict.Refuse(verdict.ProbeRefused, step, err.Error())
	default:
		return verdict.Refuse(verdict.ProbeUnreadable, step, err.Error())
	}
}
