package authenticate

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Account is a ServiceAccount whose tokens are taken, and what for.
type Account struct {
	// Name of the ServiceAccount, in the namespace of the sandbox.
	Name string
	// Purpose is for the operator's explanation.
	Purpose string
}

// Policy is what the settings say about bearers.
type Policy struct {
	// Scheme is the gateway and its workspace mode.
	Scheme workspace.Scheme
	// Accounts are the ServiceAccounts that sandboxes run under. The stock settings have one, service_account_name.
	Accounts []Account
}

// PolicyOf is the policy of the stock settings.
func PolicyOf(k *driverconf.Kubernetes) Policy {
	return Policy{
		Scheme:   workspace.SchemeOf(k),
		Accounts: []Account{{Name: k.ServiceAccountName, Purpose: "the Pods of sandboxes"}},
	}
}

// Evaluator judges facts by one policy. It holds no state and may be used by many goroutines. The zero Evaluator refuses.
type Evaluator struct {
	policy Policy
}

// New makes an evaluator. The error is a policy that would accept nobody, or that says less than it must.
func New(p Policy) (*Evaluator, error) {
	if err := p.Scheme.Validate(); err != nil {
		return nil, fmt.Errorf("authentication policy: %w", err)
	}
	if len(p.Accounts) == 0 {
		return nil, errors.New("authentication policy: no ServiceAccount is accepted; set service_account_name")
	}
	for _, a := range p.Accounts {
		if len(validation.IsDNS1123Subdomain(a.Name)) > 0 {
			return nil, fmt.Errorf("authentication policy: %s is no name of a ServiceAccount; set service_account_name", quote(a.Name))
		}
	}
	p.Accounts = append([]Account(nil), p.Accounts...)
	return &Evaluator{policy: p}, nil
}

// Result is one answer.
type Result struct {
	// Decision grants only when every step has passed.
	Decision verdict.Decision
	// Next is what must be asked for before more can be said; zero when the Decision is final.
	Next Question
	// SandboxID and Identity are the answer to the gateway; empty unless the Decision grants.
	SandboxID string
	Identity  runtimeid.Identity
	// Bearer is for the log and the audit event.
	Bearer Bearer
}

// Final reports whether the Decision stands, whatever else could be asked.
func (r Result) Final() bool { return r.Next == Question{} }

// evaluation is one run through the steps. Each step may use what the steps before it have put here.
type evaluation struct {
	policy Policy
	facts  *Facts
	bearer Bearer
	// supervisor says that the Pod has the role of one.
	supervisor bool
	owner      sandboxapi.Owner
	identity   runtimeid.Identity
	// list is the newest answer that a step has taken; the zero Answer before the first.
	list allowlist.Answer
}

// Evaluate judges f, which it does not change; nil refuses. It does no I/O and asks nobody.
func (e *Evaluator) Evaluate(f *Facts) Result {
	return e.evaluate(steps[:], f, func(*check, *evaluation, finding) {})
}

// evaluate runs the steps in their order and tells watch what each found.
func (e *Evaluator) evaluate(order []check, f *Facts, watch func(*check, *evaluation, finding)) Result {
	if e == nil || f == nil {
		return Result{Decision: verdict.Refuse(verdict.Unexplained, "", "there is no policy, or there are no facts")}
	}
	run := &evaluation{policy: e.policy, facts: f}
	for i := range order {
		step := &order[i]
		found := step.judge(run)
		watch(step, run, found)
		if !found.goesOn() {
			return run.refuse(step, found)
		}
	}
	return Result{
		Decision:  verdict.Grant(run.list.Evidence()),
		SandboxID: run.bearer.SandboxID,
		Identity:  run.identity,
		Bearer:    run.bearer,
	}
}

func (run *evaluation) refuse(step *check, found finding) Result {
	d := verdict.Refuse(found.reason, step.name, found.explanation).WithAllowlist(run.list.Evidence())
	if found.reason == verdict.NotListed {
		// Contract 5.3 has a text of its own for authentication.
		if spec, ok := verdict.NamespaceNotAccepted.Spec(); ok {
			d = d.WithMessage(spec.Message)
		}
	}
	return Result{Decision: d, Next: found.next, Bearer: run.bearer}
}
