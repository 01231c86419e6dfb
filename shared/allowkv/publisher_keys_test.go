package allowkv_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// succeedWith has a writer with another key take over, whose public key is added just before.
func (w *pubWorld) succeedWith(next *allowlist.Signer) *pubLeader {
	w.t.Helper()
	allowkvtest.WriteKeys(w.t, w.keysFile, w.signer, next)
	keys, err := allowlist.NewKeySet(w.signer.Public(), next.Public())
	if err != nil {
		w.t.Fatal(err)
	}
	w.signer, w.keys = next, keys
	b := w.publisher("writer-b", w.conn, "team-b")
	b.begin()
	return b
}

// TestSuccessorWithANewKey rotates the key by rolling the writers over: the old leader, which began when there was only
// the old key, takes the successor for one and overwrites nothing of it.
func TestSuccessorWithANewKey(t *testing.T) {
	t.Parallel()
	t.Run("the old one still leads", func(t *testing.T) {
		t.Parallel()
		w := newPubWorld(t)
		a := w.lead("writer-a", "team-a")
		b := w.succeedWith(allowkvtest.Signer(t))
		if end := a.end(); end.Cause != allowlist.EndSuperseded {
			t.Errorf("ended by %s: %v", end.Cause, end.Err)
		}
		if s := w.lists("team-b"); s.Writer != "writer-b" || s.Revision != 2 {
			t.Errorf("stored %d by %s", s.Revision, s.Writer)
		}
		b.beats(2)
		if n := pubCount(t, a, "findings_total", "unknown_key", "rejected"); n != 0 {
			t.Errorf("%v records were taken for tampering", n)
		}
		// A heartbeat that the old one sent before it saw the new list may come after it. Another list never does.
		for line := range strings.Lines(b.log.String()) {
			if strings.Contains(line, `"kind":"foreign"`) && !strings.Contains(line, `"record":"`+allowlist.HeartbeatKey(pubGateway)+`"`) {
				t.Errorf("the old one overwrites: %s", line)
			}
		}
	})
	t.Run("the old one stops", func(t *testing.T) {
		t.Parallel()
		w := newPubWorld(t)
		w.settings.StopGrace = driverconf.Duration(4 * time.Second)
		a := w.lead("writer-a", "team-a")
		a.release()
		w.succeedWith(allowkvtest.Signer(t))
		if end := a.end(); end.Cause != allowlist.EndStopped || end.Farewell != allowlist.FarewellSucceeded {
			t.Errorf("ended by %s, %s: %v", end.Cause, end.Farewell, end.Err)
		}
		w.lists("team-b")
	})
}

// TestSigningKeyIsGone: a writer whose key was taken from the public keys ends its term, and begins no other.
func TestSigningKeyIsGone(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	l := w.lead("writer-a", "team-a")
	allowkvtest.WriteKeys(t, w.keysFile, allowkvtest.Signer(t))
	ended := func() {
		t.Helper()
		if end := l.end(); end.Cause != allowlist.EndKeyGone || end.Err == nil || !strings.Contains(end.Err.Error(), "no longer among the public keys") {
			t.Errorf("ended by %s: %v", end.Cause, end.Err)
		}
	}
	ended()
	l.logged(`"level":"error"`, "the signing key was taken")
	l.begin()
	ended()
	if n := pubCount(t, l, "findings_total", "none", "key_gone"); n != 2 {
		t.Errorf("found %v times", n)
	}
	allowkvtest.WriteKeys(t, w.keysFile, w.signer)
	l.begin()
	l.beats(2)
}

// TestUnreadableKeysChangeNothing: the keys that were read before stay in use.
func TestUnreadableKeysChangeNothing(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	l := w.lead("writer-a", "team-a")
	if err := os.WriteFile(w.keysFile, []byte("half a line"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.logged("the public keys cannot be read")
	pubGauge(t, l, "keys_usable", 0)
	l.beats(3)
	allowkvtest.WriteKeys(t, w.keysFile, w.signer)
	l.logged("can be read again")
	pubGauge(t, l, "keys_usable", 1)
}

// TestUselessLeaderGivesWay: a leader that is cut off from NATS for long gives the Lease back.
func TestUselessLeaderGivesWay(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	w.settings.MaxStaleness = driverconf.Duration(3 * time.Second)
	l := w.lead("writer-a", "team-a")
	w.server.Stop()
	if end := l.end(); end.Cause != allowlist.EndIdle || end.Err == nil {
		t.Errorf("ended by %s: %v", end.Cause, end.Err)
	}
	if n := pubCount(t, l, "terms_total", "idle"); n != 1 {
		t.Errorf("%v terms counted as idle", n)
	}
}
