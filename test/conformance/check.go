package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Check is one demand on a driver.
type Check struct {
	// ID is stable: "create.identity".
	ID string
	// Section of the contract.
	Section string
	// Required: a gateway relies on it. Otherwise it is a defect of the original driver, or open in the contract.
	Required bool
	// Says is what the contract says, Breaks what goes wrong at a gateway when the driver does otherwise.
	Says, Breaks string
	// Alone: the check disturbs the driver, and no other may run meanwhile.
	Alone bool

	// waits: the check does nothing but wait for most of its time.
	waits bool
	needs []ability
	run   func(ctx context.Context, p *probe) error
}

// Finding is what a driver does otherwise than the contract says.
type Finding struct {
	// Contract, Breaks: as in the Check. Came is what came instead.
	Contract, Came, Breaks string
}

// String is the finding in one paragraph.
func (f *Finding) String() string {
	return fmt.Sprintf("expected: %s; got: %s; at a gateway: %s", f.Contract, f.Came, f.Breaks)
}

// Lacks names what the target or its driver would need for the check to be made, and is empty when nothing is missing.
func (c Check) Lacks(ctx context.Context, target Target) string {
	for _, need := range c.needs {
		if missing := need(ctx, target); missing != "" {
			return missing
		}
	}
	return ""
}

// Run makes the check, whatever Lacks says, and removes what it made. Neither a finding nor anything missing is that the driver does what
// the contract says. missing names what the check did not meet with while it was made, so that it shows nothing; a finding comes before that.
// A check whose preparation fails has a finding too: nothing is known to be well.
func (c Check) Run(ctx context.Context, target Target) (finding *Finding, missing string) {
	p, err := newProbe(ctx, target)
	if err == nil {
		err = errors.Join(c.run(ctx, p), p.end(ctx))
	}
	missing, err = parted(err)
	if err == nil {
		return nil, missing
	}
	return &Finding{Contract: c.Says, Came: err.Error(), Breaks: c.Breaks}, ""
}

// notMade is the error of a check, or of a part of one, that did not meet with what it judges. It is what was missing.
type notMade string

// Error is what was missing.
func (n notMade) Error() string { return string(n) }

// parted is what the parts that were not made missed, and what went wrong beside those.
func parted(err error) (missing string, wrong error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var missed []string
		for _, one := range joined.Unwrap() {
			lacks, one := parted(one)
			wrong = errors.Join(wrong, one)
			if lacks != "" {
				missed = append(missed, lacks)
			}
		}
		return strings.Join(missed, "; "), wrong
	}
	if lacks, ok := errors.AsType[notMade](err); ok {
		return lacks.Error(), nil
	}
	return "", err
}

// Checks are all checks, in the order of the contract's calls.
func Checks() []Check {
	var all []Check
	for _, some := range [][]Check{
		handshakeChecks(), peerChecks(), authenticateChecks(), validateChecks(), createChecks(), startChecks(), stopChecks(), deleteChecks(),
		readChecks(), idChecks(), bytesChecks(), evidenceChecks(), watchChecks(), workspaceChecks(), secretChecks(), cancelChecks(), hostileChecks(), crashChecks(),
	} {
		all = append(all, some...)
	}
	return all
}

// patience bounds every wait of a check.
func patience(target Target) time.Duration {
	if p, ok := target.(Patient); ok {
		return p.Patience()
	}
	return DefaultPatience
}
