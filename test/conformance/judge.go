package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Outcome is what is known of a check. The zero value is that nothing is.
type Outcome int

// The outcomes.
const (
	NotMade Outcome = iota
	Passed
	Failed
)

// Result is a check with what came of it.
type Result struct {
	Check   Check
	Outcome Outcome
	// Finding is of a check that Failed, Missing of one that was NotMade.
	Finding *Finding
	Missing string
	Took    time.Duration
}

// String is the result as a line of the report.
func (r Result) String() string {
	switch r.Outcome {
	case Passed:
		return fmt.Sprintf("PASS %s %s", r.Check.ID, r.Check.Section)
	case Failed:
		word := "FAIL"
		if !r.Check.Required {
			word = "WARN"
		}
		return fmt.Sprintf("%s %s %s: %s", word, r.Check.ID, r.Check.Section, r.Finding)
	default:
		return fmt.Sprintf("---- %s %s: not made: the target lacks %s", r.Check.ID, r.Check.Section, r.Missing)
	}
}

// How says which checks are made, and how.
type How struct {
	// Only are beginnings of the ids of the checks to make; none are all.
	Only []string
	// Together is how many are made at once, those that wait not counted; 0 is DefaultTogether.
	Together int
	// Told gets every result when it is there, one at a time; nil is allowed.
	Told func(Result)
}

// DefaultTogether is how many checks are made at once.
const DefaultTogether = 8

// Judge makes the checks, those that disturb the driver last and alone, and returns the results in the order of Checks. The error is
// that of a target that could not be reset; ctx ends what is under way.
func Judge(ctx context.Context, target Target, how How) ([]Result, error) {
	if err := target.Reset(ctx); err != nil {
		return nil, fmt.Errorf("reset the target before the checks: %w", err)
	}
	shared, end, err := withStanding(ctx, target)
	if err != nil {
		return nil, err
	}
	checks := slices.DeleteFunc(Checks(), func(c Check) bool { return !how.wants(c.ID) })
	results := make([]Result, len(checks))
	var telling sync.Mutex
	judge := func(i int) {
		results[i] = judged(shared, target, checks[i])
		telling.Lock()
		defer telling.Unlock()
		if how.Told != nil {
			how.Told(results[i])
		}
	}
	turns := make(chan struct{}, cmp.Or(how.Together, DefaultTogether))
	var all sync.WaitGroup
	for i := range checks {
		if checks[i].waits && !checks[i].Alone { // beside all others, and from the beginning
			all.Go(func() { judge(i) })
		}
	}
	for i := range checks {
		if checks[i].Alone || checks[i].waits {
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			judge(i)
		})
	}
	all.Wait()
	for i := range checks {
		if checks[i].Alone {
			judge(i)
		}
	}
	if err := errors.Join(end(), target.Reset(context.WithoutCancel(ctx))); err != nil {
		return results, fmt.Errorf("clean the target after the checks: %w", err)
	}
	return results, nil
}

func judged(ctx context.Context, target Target, c Check) Result {
	began := time.Now()
	r := Result{Check: c}
	if r.Missing = c.Lacks(ctx, target); r.Missing != "" {
		return r
	}
	switch r.Finding, r.Missing = c.Run(ctx, target); {
	case r.Finding != nil:
		r.Outcome = Failed
	case r.Missing == "":
		r.Outcome = Passed
	}
	r.Took = time.Since(began)
	return r
}

func (h How) wants(id string) bool {
	return len(h.Only) == 0 || slices.ContainsFunc(h.Only, func(begins string) bool { return strings.HasPrefix(id, begins) })
}

// ordered sorts checks by their ids.
func ordered(checks []Check) []Check {
	slices.SortFunc(checks, func(a, b Check) int { return cmp.Compare(a.ID, b.ID) })
	return checks
}

// Report writes every result on a line, and a sum. It reports whether every required check passed or was not made.
func Report(w io.Writer, results []Result) (conforms bool, err error) {
	var passed, failed, advised, missing int
	for _, r := range results {
		switch {
		case r.Outcome == Passed:
			passed++
		case r.Outcome == NotMade:
			missing++
		case r.Check.Required:
			failed++
		default:
			advised++
		}
		if _, err := fmt.Fprintln(w, r); err != nil {
			return false, err
		}
	}
	_, err = fmt.Fprintf(w, "%d passed, %d failed, %d to be advised against, %d not made\n", passed, failed, advised, missing)
	return failed == 0, err
}
