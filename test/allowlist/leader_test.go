package allowlist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// brief is a Lease that a standby gets soon after its holder has died.
const brief = "\nlease_duration = \"4s\"\nrenew_deadline = \"3s\"\nretry_period = \"500ms\"\n"

func nswatch(t *testing.T, i *installation.Installation, lines string) *program.Process {
	t.Helper()
	return program.Start(t, "nswatch", strings.NewReplacer(
		"[portcullis.nswatch]\n", "[portcullis.nswatch]\n"+lines,
		"[portcullis.kubernetes]\n", "[portcullis.kubernetes]\nping_interval = \"1s\"\nping_timeout = \"1s\"\n", // less than renew_deadline
	).Replace(i.Settings("")))
}

// leads waits until the process leads.
func leads(t *testing.T, p *program.Process) {
	t.Helper()
	p.AwaitMetric(1, "portcullis_nswatch_leading")
}

func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	i.Bounds = short
	kept, dropped := i.Labelled(), i.Labelled()
	leader := nswatch(t, i, brief)
	leads(t, leader)
	standby := nswatch(t, i, brief)
	standby.AwaitReady() // without leading
	r := i.Reader()
	r.AwaitAllowed(dropped)
	leader.Kill()
	i.RemoveLabel(dropped)
	leads(t, standby)
	r.AwaitRefused(dropped, verdict.NotListed)
	r.AwaitAllowed(kept)
}

// The leader is stopped in the middle of its work, loses the Lease, and wakes up with an old list in its head.
func TestLeaderPausedPastItsLease(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	i.Bounds = short
	kept, dropped := i.Labelled(), i.Labelled()
	leader := nswatch(t, i, brief)
	leads(t, leader)
	standby := nswatch(t, i, brief)
	r := i.Reader()
	r.AwaitAllowed(dropped)
	before := r.Check(dropped)
	leader.Pause()
	i.RemoveLabel(dropped)
	leads(t, standby)
	r.AwaitAllowed(kept)
	r.AwaitRefused(dropped, verdict.NotListed)
	leader.Resume()
	cluster.Eventually(t, "the old leader's term ends", func(ctx context.Context) error {
		leading, err := leader.Metric(ctx, "portcullis_nswatch_leading")
		if err == nil && leading != 0 {
			err = errors.New("it still leads")
		}
		return err
	})
	r.AwaitAllowed(kept)
	if a := r.Check(dropped); a.Allowed() || a.Epoch <= before.Epoch {
		t.Errorf("after the old leader came back: %+v", a)
	}
}

// Two Leases for one gateway: nothing but the epochs keeps the two leaders apart.
func TestReplayE02TwoLeaders(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	kept, dropped := i.Labelled(), i.Labelled()
	r := i.Reader()
	i.Lend("first")
	i.Lend("second")
	first := nswatch(t, i, "lease_name = \"first\"\n"+brief)
	r.AwaitAllowed(dropped)
	second := nswatch(t, i, "lease_name = \"second\"\n"+brief)
	first.AwaitMetric(1, "portcullis_allowlist_writer_terms_total", `cause="superseded"`)
	i.RemoveLabel(dropped)
	r.AwaitRefused(dropped, verdict.NotListed)
	second.Stop()
	r.AwaitAllowed(kept)
	r.AwaitRefused(dropped, verdict.NotListed)
}

// A rollout: the leader stops cleanly and the standby takes over.
func TestLeaderStops(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	ns := i.Labelled()
	leader := nswatch(t, i, brief)
	leads(t, leader)
	standby := nswatch(t, i, brief)
	standby.AwaitReady()
	r := i.Reader()
	r.AwaitAllowed(ns)
	before := r.Check(ns).Epoch
	open := stays(t, r, ns)
	leader.Stop()
	r.AwaitBeats(before, 3)
	open()
}

// The last one stops: the list is withdrawn, which readers learn at once.
func TestLastLeaderStops(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	ns := i.Labelled()
	leader := nswatch(t, i, brief)
	r := i.Reader()
	r.AwaitAllowed(ns)
	leader.Stop()
	r.AwaitRefused(ns, verdict.Withdrawn)
}

// Rotation: both keys are trusted, then the writer changes, then the old key goes. Readers run all the time, and never
// close.
func TestKeyRotated(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	ns := i.Labelled()
	old := i.Public()
	leader := nswatch(t, i, brief)
	leads(t, leader)
	r := i.Reader()
	r.AwaitAllowed(ns)
	open, before := stays(t, r, ns), r.Check(ns).Epoch

	next := i.Rekey()
	i.Trust(old, next)
	successor := nswatch(t, i, brief)
	successor.AwaitReady()
	leader.Stop()
	leads(t, successor)
	r.AwaitBeats(before, 3)
	i.Trust(next)
	// More beats than a reader waits between two looks at its keys.
	r.AwaitBeats(before, r.Status().Marks.Beat+5)
	open()

	// A key that is trusted no more counts for nothing from then on, though it goes on signing.
	i.Trust(old)
	r.AwaitRefused(ns, verdict.Invalid, verdict.Unsynced)
	i.Trust(next)
	r.AwaitAllowed(ns)
}

// stays asks for the namespace over and over until the function that it returns is called, and fails the test if it was
// refused once.
func stays(t *testing.T, r *installation.Reader, namespace string) (end func()) {
	t.Helper()
	stop, refused := make(chan struct{}), make(chan string, 1)
	halt := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(halt)
	go func() {
		defer close(refused)
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			if a := r.Check(namespace); !a.Allowed() {
				refused <- fmt.Sprintf("%+v", a)
				return
			}
			select {
			case <-tick.C:
			case <-stop:
				tick.Stop()
				return
			}
		}
	}()
	return func() {
		t.Helper()
		halt()
		if answer, closed := <-refused; closed {
			t.Fatalf("the gate was closed for a moment: %s", answer)
		}
	}
}
