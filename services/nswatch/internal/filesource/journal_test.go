package filesource

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// TestCausesAreLogged: causes of one result that are ever new do not keep another result out of the log, nor the same
// for ever.
func TestCausesAreLogged(t *testing.T) {
	m, err := newMetrics(prometheus.NewRegistry())
	must(t, err)
	log := &syncBuffer{}
	j := newJournal(zerolog.New(log), m)
	j.limit = rate.NewLimiter(rate.Inf, 0)
	lines := func(what string, want int) {
		t.Helper()
		if n := log.count("cannot be used"); n != want {
			t.Errorf("%s: %d lines, want %d:\n%s", what, n, want, log)
		}
	}
	for i := range 3 * maxCauses {
		j.failed(time.Duration(i)*time.Second, failf(resultName, "entry %d is no name", i))
	}
	lines("many causes of one result", maxCauses)
	gone := failf(resultMissing, "it does not exist")
	j.failed(time.Minute, gone)
	lines("another result", maxCauses+1)
	j.failed(time.Minute+reminder-1, gone)
	lines("the same cause", maxCauses+1)
	j.failed(time.Minute+reminder, gone)
	lines("the same cause, some minutes later", maxCauses+2)
	j.failed(time.Minute+reminder, failf(resultName, "entry 0 is no name"))
	lines("the first result, some minutes later", maxCauses+3)
	j.succeeded(time.Now())
	j.failed(time.Minute+reminder, gone)
	lines("after a good read", maxCauses+4)
	for _, want := range []string{"older than source_max_age", "after file_failure_grace"} {
		if log.count(want) != maxCauses+4 {
			t.Errorf("the lines do not say %q", want)
		}
	}
}
