package allowlist_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// brief is a Lease that a standby gets soon after its holder has died.
const brief = "\nlease_duration = \"4s\"\nrenew_deadline = \"3s\"\nretry_period = \"500ms\"\n"

func nswatch(t *testing.T, i *installation.Installation, lines string) *program.Process {
	t.Helper()
	return program.Start(t, "nswatch", strings.Replace(i.Settings(""), "[portcullis.nswatch]\n", "[portcullis.nswatch]\n"+lines, 1))
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
	leader.Stop()
	cluster.Eventually(t, "the standby's list is used", func(context.Context) error {
		a := r.Check(ns)
		if !a.Allowed() {
			t.Fatalf("the gate closed during a rollout: %s", a.Reason)
		}
		if a.Epoch == before {
			return errors.New("not yet")
		}
		return nil
	})
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

// Rotation: both keys are trusted, then the writer changes, then the old key goes. Readers run all the time.
func TestKeyRotated(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	ns := i.Labelled()
	old := i.Public()
	leader := nswatch(t, i, brief)
	r := i.Reader()
	r.AwaitAllowed(ns)

	next := i.Rekey()
	i.Trust(old, next)
	leader.Stop()
	successor := nswatch(t, i, brief)
	leads(t, successor)
	r.AwaitAllowed(ns)
	i.Trust(next)
	successor.AwaitMetric(1, "portcullis_allowlist_writer_epoch")
	r.AwaitAllowed(ns)

	// A key that is trusted no more counts for nothing from then on, though it goes on signing.
	i.Trust(old)
	r.AwaitRefused(ns, verdict.Invalid, verdict.Unsynced)
	i.Trust(next)
	r.AwaitAllowed(ns)
}
