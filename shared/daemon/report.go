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
	c.mu.Lock()
	list, cause := c.readiness, c.cause
	c.mu.Unlock()
	switch {
	case cause != nil:
		return Report{Problem: fmt.Errorf("stopping: %w", cause), asked: true}
	case len(list) == 0:
		return Report{Problem: errNoChecks, asked: true}
	}
	r := Report{Results: askAll(ctx, list), asked: true}
	// The stop may have begun while the checks ran.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		r.Problem = fmt.Errorf("stopping: %w", c.cause)
	}
	return r
}

// liveOne and readyOne ask one check; found is false when there is none of that
// name.
func (c *Checks) liveOne(ctx context.Context, name string) (report Report, found bool) {
	c.mu.Lock()
	list := c.liveness
	c.mu.Unlock()
	return askOne(ctx, list, name)
}

func (c *Checks) readyOne(ctx context.Context, name string) (report Report, found bool) {
	c.mu.Lock()
	list := c.readiness
	c.mu.Unlock()
	return askOne(ctx, list, name)
}

func askOne(ctx context.Context, list []*check, name string) (report Report, found bool) {
	for _, one := range list {
		if one.name == name {
			return Report{Results: askAll(ctx, []*check{one}), asked: true}, true
		}
	}
	return Report{}, false
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
