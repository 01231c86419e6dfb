package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Result is the answer of one check.
type Result struct {
	// Name is the name that the check was added with.
	Name string
	// Err is why it failed, nil when it passed.
	Err error
}

// Reason is the check's name and why it failed, as the line of /readyz has it; empty when it passed. It is one line of
// printable text, at most 600 bytes.
func (r Result) Reason() string {
	if r.Err == nil {
		return ""
	}
	return r.Name + ": " + oneLine(r.Err.Error())
}

// Report is the answer to a question for liveness or readiness. The zero Report is
// a no.
type Report struct {
	// Results has one entry per check that was asked, in the order of adding.
	Results []Result
	// Problem is why the answer is no whatever the checks say, else nil.
	Problem error

	asked bool
}

// errNoChecks: a daemon that does not say when it is ready never is.
var errNoChecks = errors.New("no readiness check was added")

// OK reports that the answer is yes: the question was put, there is no problem, and
// every check passed.
func (r Report) OK() bool {
	if !r.asked || r.Problem != nil {
		return false
	}
	for _, result := range r.Results {
		if result.Err != nil {
			return false
		}
	}
	return true
}

// Live asks all liveness checks at the same time. Without any the answer is yes.
func (c *Checks) Live(ctx context.Context) Report {
	c.mu.Lock()
	list := c.liveness
	c.mu.Unlock()
	return Report{Results: askAll(ctx, list), asked: true}
}

// Ready asks all readiness checks at the same time. Without any, or once drained,
// the answer is no; once drained the checks are not asked, since what they look at
// is being stopped.
func (c *Checks) Ready(ctx context.Context) Report {
	list := c.readinessChecks()
	r := c.askReady(ctx, list)
	if r.Problem == nil && len(list) == 0 {
		r.Problem = errNoChecks
	}
	return r
}

func (c *Checks) readinessChecks() []*check {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readiness
}

// askReady asks readiness checks; from the beginning of the stop on the answer is no.
func (c *Checks) askReady(ctx context.Context, list []*check) Report {
	if stopping := c.stopping(); stopping != nil {
		return Report{Problem: stopping, asked: true}
	}
	results := askAll(ctx, list)
	// The stop may have begun while the checks ran.
	return Report{Results: results, Problem: c.stopping(), asked: true}
}

// stopping is the problem that a drained daemon has, else nil.
func (c *Checks) stopping() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		return nil
	}
	return fmt.Errorf("stopping: %w", c.cause)
}

// liveOne and readyOne ask one check; found is false when there is none of that
// name.
func (c *Checks) liveOne(ctx context.Context, name string) (report Report, found bool) {
	c.mu.Lock()
	one := named(c.liveness, name)
	c.mu.Unlock()
	if one == nil {
		return Report{}, false
	}
	return Report{Results: askAll(ctx, one), asked: true}, true
}

func (c *Checks) readyOne(ctx context.Context, name string) (report Report, found bool) {
	one := named(c.readinessChecks(), name)
	if one == nil {
		return Report{}, false
	}
	return c.askReady(ctx, one), true
}

// named returns the check of that name alone, nil when there is none.
func named(list []*check, name string) []*check {
	for i, one := range list {
		if one.name == name {
			return list[i : i+1]
		}
	}
	return nil
}

func askAll(ctx context.Context, list []*check) []Result {
	results := make([]Result, len(list))
	var wg sync.WaitGroup
	for i, one := range list {
		wg.Go(func() { results[i] = Result{Name: one.name, Err: one.ask(ctx)} })
	}
	wg.Wait()
	return results
}
