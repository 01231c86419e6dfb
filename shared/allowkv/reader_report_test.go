package allowkv

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestChangedAfterAnUnseenDeadline: a view turned Stale by itself, a caller has seen that, and the beat that came late
// steps the machine from Fresh to Fresh. The caller that waits must be told.
func TestChangedAfterAnUnseenDeadline(t *testing.T) {
	for name, channel := range map[string]func(*still) (allowlist.State, <-chan struct{}){
		"snapshot": func(x *still) (allowlist.State, <-chan struct{}) {
			l, changed := x.Snapshot()
			return l.Condition.State, changed
		},
		"changed": func(x *still) (allowlist.State, <-chan struct{}) {
			changed := x.Changed()
			if x.Check("team-a").Allowed() {
				return allowlist.Fresh, changed
			}
			return allowlist.Stale, changed
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newStill(t, t.TempDir())
			x.open("team-a")
			if state, changed := channel(x); state != allowlist.Fresh || closed(changed) {
				t.Fatalf("the state is %s", state)
			}
			x.start = x.start.Add(-10 * time.Second) // and so it is ten seconds later for callers
			state, changed := channel(x)
			if state != allowlist.Stale || closed(changed) {
				t.Fatalf("the state is %s after the deadline", state)
			}
			x.deliver(2*time.Second, allowlist.HeartbeatKey(innerGateway), nil, x.beat(2*time.Second))
			if x.report.condition.State != allowlist.Fresh {
				t.Fatalf("the late beat leaves it %s", x.report.condition.State)
			}
			if !closed(changed) {
				t.Error("nobody is told of the change")
			}
		})
	}
}

// TestChangedAtTheDeadline: the passing of time alone wakes who waits, and a beat that changes nothing does not.
func TestChangedAtTheDeadline(t *testing.T) {
	x := newStillFor(t, t.TempDir(), 10*time.Minute)
	x.open("team-a")
	changed := x.Changed()
	x.deliver(2*time.Second, allowlist.HeartbeatKey(innerGateway), nil, x.beat(2*time.Second))
	x.owner.step(x.at(10*time.Minute), allowlist.Tick{})
	if closed(changed) {
		t.Fatal("told of a change without one")
	}
	x.owner.step(x.at(10*time.Minute+2*time.Second), allowlist.Tick{})
	if !closed(changed) || x.report.condition.State != allowlist.Stale {
		t.Errorf("not told that the list is %s", x.report.condition.State)
	}
}

// TestAgingIsOfFreshLists: what is not Fresh anyway is not about to close.
func TestAgingIsOfFreshLists(t *testing.T) {
	x := newStillFor(t, t.TempDir(), 30*time.Second)
	aging := func() float64 { return testutil.ToFloat64(x.owner.metrics.aging) }
	x.owner.step(x.at(0), allowlist.Tick{})
	x.owner.step(x.at(20*time.Second), allowlist.Tick{})
	if aging() != 0 {
		t.Error("a list that never was is aging")
	}
	x = newStillFor(t, t.TempDir(), 30*time.Second)
	x.open("team-a")
	for at, want := range []float64{0: 0, 1: 1, 2: 1, 3: 0} { // in tens of seconds
		if x.owner.step(x.at(time.Second+time.Duration(at)*10*time.Second), allowlist.Tick{}); aging() != want {
			t.Errorf("%d0 seconds after the beat: %v", at, aging())
		}
	}
	x.owner.shut()
	if aging() != 0 {
		t.Error("aging after the end")
	}
}

// TestMarksAreRetriedOnceASecond: a full disk is not written to at every step, and a list that comes is not kept
// waiting.
func TestMarksAreRetriedOnceASecond(t *testing.T) {
	x := newStillFor(t, t.TempDir(), 10*time.Minute)
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x.owner.marks = newMarksFile(blocked, "test", innerGateway)
	tries := func() float64 {
		return testutil.ToFloat64(x.owner.metrics.marksErrors.WithLabelValues(marksWrite))
	}
	x.deliver(0, allowlist.SnapshotKey(innerGateway), nil, x.list("team-a"))
	if tries() != 1 {
		t.Fatalf("tried %v times", tries())
	}
	for i := range 40 {
		x.owner.step(x.at(time.Duration(i)*100*time.Millisecond), allowlist.Tick{})
	}
	if n := tries(); n < 3 || n > 5 {
		t.Errorf("tried %v times in 4 seconds", n)
	}
	before := tries()
	x.revision++
	x.deliver(4*time.Second, allowlist.SnapshotKey(innerGateway), nil, x.list("team-b"))
	if tries() != before+1 {
		t.Error("new marks wait for the next try")
	}
	x.owner.marks = newMarksFile(t.TempDir(), "test", innerGateway)
	x.owner.step(x.at(5*time.Second), allowlist.Tick{})
	if x.owner.unstored != nil || tries() != before+1 {
		t.Errorf("not stored with a second's delay: %v", x.owner.unstored)
	}
}

// orderly is a registerer that notes what the log said when it was first used.
type orderly struct {
	prometheus.Registerer
	log  *bytes.Buffer
	said string
}

func (o *orderly) Register(c prometheus.Collector) error {
	if o.said == "" {
		o.said = "nothing\n" + o.log.String()
	}
	return o.Registerer.Register(c)
}

// TestMetricsAreRegisteredLast: what can fail, and the marks, come before.
func TestMetricsAreRegisteredLast(t *testing.T) {
	dir := t.TempDir()
	cfg := DefaultConfig()
	cfg.PublicKeysFile, cfg.StateDir = newStill(t, t.TempDir()).owner.keys.path, dir
	if err := os.WriteFile(newMarksFile(dir, "test", innerGateway).path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	reg := &orderly{Registerer: prometheus.NewRegistry(), log: log}
	if _, err := NewReader(ReaderConfig{GatewayID: innerGateway, Name: "test", Config: cfg}, noConnection{}, zerolog.New(log), reg); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains([]byte(reg.said), []byte("without high-water marks")) {
		t.Errorf("registered before the marks were read; the log said %q", reg.said)
	}
}

// TestListWithAKeyOfNow: a writer takes over with a key that was added a moment ago, sooner than the keys are read the
// next time. The gate stays open.
func TestListWithAKeyOfNow(t *testing.T) {
	x := newStillFor(t, t.TempDir(), 10*time.Minute)
	x.open("team-a")
	next, err := allowlist.GenerateSigner(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(x.owner.keys.path, []byte(x.signer.Public().FileLine()+next.Public().FileLine()), 0o600); err != nil {
		t.Fatal(err)
	}
	x.signer, x.revision = next, 1
	x.deliver(2*time.Second, allowlist.SnapshotKey(innerGateway), nil, x.list("team-a"))
	if got := x.state(2 * time.Second); got != allowlist.Fresh || x.Status().Revision != 2 {
		t.Errorf("the state is %s at revision %d", got, x.Status().Revision)
	}
}
