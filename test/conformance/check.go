package conformance

import (
	"context"
	"errors"
	"fmt"
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

// Run makes the check, whatever Lacks says, and removes what it made. Nil is that the driver does what the contract says. A check
// whose preparation fails has a finding too: nothing is known to be well.
func (c Check) Run(ctx context.Context, target Target) *Finding {
	p, err := newProbe(ctx, target)
	if err == nil {
		err = errors.Join(c.run(ctx, p), p.end(ctx))
	}
	if err == nil {
		return nil
	}
	return &Finding{Contract: c.Says, Came: err.Error(), Breaks: c.Breaks}
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
