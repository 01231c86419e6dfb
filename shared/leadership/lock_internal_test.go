package leadership

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// slow takes a time for each renewal and accepts it.
type slow struct {
	resourcelock.Interface
	takes time.Duration
}

func (s slow) Identity() string { return "me" }

func (s slow) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	time.Sleep(s.takes)
	return nil
}

// TestDeadlineCountsFromTheBegin: others count the Lease from the moment that the server took the renewal, which may
// be long before its answer is here. Time is synctest's.
func TestDeadlineCountsFromTheBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := newMetrics("nswatch", prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ended := make(chan time.Duration, 8)
		l := &lock{
			Interface: slow{takes: 9 * time.Second}, try: time.Hour, renew: 10 * time.Second, log: zerolog.Nop(), metrics: m, faults: &faults{},
			held: make(chan struct{}), overdue: func() { ended <- time.Since(start) },
		}
		mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
		if err := l.Update(t.Context(), mine); err != nil { // from 0 to 9 s
			t.Fatal(err)
		}
		if !isClosed(l.held) {
			t.Error("the Lease is not held")
		}
		if err := l.Update(t.Context(), mine); err != nil { // from 9 to 18 s, too late
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		select {
		case at := <-ended:
			if at != 10*time.Second {
				t.Errorf("the term ended at %s, want 10s", at)
			}
		default:
			t.Error("the term did not end")
		}
		// A release is no renewal.
		l.disarm()
		for len(ended) > 0 {
			<-ended
		}
		if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if len(ended) != 0 {
			t.Error("a release armed the deadline")
		}
	})
}
