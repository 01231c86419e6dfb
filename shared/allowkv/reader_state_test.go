package allowkv_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestMarksOutliveTheReader: a restarted reader refuses a bucket that went back meanwhile.
func TestMarksOutliveTheReader(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	signer := allowkvtest.Signer(t)
	d := newDesk(t, s.URL(), signer)
	d.bucket(1)
	d.publish("team-a", "team-old")
	rolledBack := *newScribe(t, signer, 1)
	rolledBack.revision, rolledBack.digest, rolledBack.began = d.revision, d.digest, d.began
	rolledBack.beats = 1000
	d.publish("team-a")
	d.start()
	cfg := readerSettings(allowkvtest.KeysFile(t, signer))
	cfg.StateDir = filepath.Join(t.TempDir(), "made", "by", "the reader")
	conn, _ := connect(t, s.URL())
	x := runReader(t, conn, cfg)
	x.answers("team-a", "")
	x.stop()
	d.halt()
	file := filepath.Join(cfg.StateDir, "test-"+readerGateway+".marks")
	marks, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(marks), `"revision":2`) {
		t.Fatalf("the marks file holds %q, %v", marks, err)
	}

	if err := d.js.DeleteKeyValue(t.Context(), allowkv.Bucket); err != nil {
		t.Fatal(err)
	}
	d.bucket(1)
	d.scribe = &rolledBack
	d.revision = 0
	d.publish("team-a", "team-old") // revision 1 again, with sound new beats
	d.start()
	y := runReader(t, conn, cfg)
	y.until("rolled back beats refused", func() bool { return y.counter("findings_total", "kind", "rollback") > 5 })
	if a := y.Check("team-old"); a.Allowed() {
		t.Errorf("a rolled back list is used: %+v", a)
	}
	// The same bucket opens a reader without the marks, so they are what refused it.
	z := runReader(t, conn, readerSettings(cfg.PublicKeysFile))
	z.answers("team-old", "")
	if a := y.Check("team-old"); a.Allowed() {
		t.Errorf("a rolled back list is used after a while: %+v", a)
	}
}

// TestUnusableMarks: a damaged or foreign file costs the memory, is told of, and is replaced.
func TestUnusableMarks(t *testing.T) {
	t.Parallel()
	s, d, _ := open(t)
	for name, content := range map[string]string{
		"damaged":  "{}\n",
		"foreign":  string(allowlist.EncodeMarks("gw-2", allowlist.Marks{})),
		"oversize": strings.Repeat("x", 8<<10),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := readerSettings(allowkvtest.KeysFile(t, d.signer))
			cfg.StateDir = t.TempDir()
			file := filepath.Join(cfg.StateDir, "test-"+readerGateway+".marks")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			conn, _ := connect(t, s.URL())
			x := runReader(t, conn, cfg)
			if n := x.counter("marks_errors_total", "operation", "read"); n != 1 {
				t.Errorf("%v read errors are counted", n)
			}
			if !strings.Contains(x.log.String(), "high-water marks") {
				t.Errorf("the log does not say so:\n%s", x.log)
			}
			x.answers("team-a", "")
			if now, err := os.ReadFile(file); err != nil || !strings.Contains(string(now), `"epoch":1,"revision":1`) {
				t.Errorf("the marks file holds %q, %v", now, err)
			}
		})
	}
}

// TestUnwritableStateDir: without a place for its marks a reader adds nothing, removes at once, and goes on when there
// is a place again. A directory in the way of the file stands for a full disk; root may write everywhere else.
func TestUnwritableStateDir(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	dir := t.TempDir()
	next := filepath.Join(dir, "test-"+readerGateway+".marks.next")
	d, x := openOn(t, s.URL(), s.URL(), func(cfg *allowkv.Config) { cfg.StateDir = dir })
	d.publish("team-a", "team-b")
	x.answers("team-b", "")

	if err := os.Mkdir(next, 0o700); err != nil {
		t.Fatal(err)
	}
	d.publish("team-a", "team-c")
	x.answers("team-b", verdict.NotListed)
	x.answers("team-c", verdict.Behind)
	if a := x.Check("team-a"); !a.Allowed() {
		t.Errorf("what both lists hold is refused: %+v", a)
	}
	x.until("the metric", func() bool {
		return x.counter("marks_stored") == 0 && x.counter("marks_errors_total", "operation", "write") > 2
	})
	if n := strings.Count(x.log.String(), "cannot be stored"); n != 1 {
		t.Errorf("%d lines about it, want 1:\n%s", n, x.log)
	}

	// A reader that never stored anything stays closed.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	conn, _ := connect(t, s.URL())
	y := runReader(t, conn, func() allowkv.Config {
		cfg := readerSettings(allowkvtest.KeysFile(t, d.signer))
		cfg.StateDir = filepath.Join(file, "in the way")
		return cfg
	}())
	y.until("a vouched list", func() bool { return y.Status().Vouched == 2 })
	if err := y.Ready(t.Context()); y.Check("team-a").Allowed() || err == nil || !strings.Contains(err.Error(), "store the high-water marks") {
		t.Errorf("open without marks; ready: %v", err)
	}

	for _, obstacle := range []string{next, file} {
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
	}
	x.answers("team-c", "")
	y.answers("team-c", "")
	x.until("the metric", func() bool { return x.counter("marks_stored") == 1 })
}

// TestKeyRotation: a key comes, signs, and its predecessor goes; a file that cannot be used changes nothing.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	var keys string
	d, x := openOn(t, s.URL(), s.URL(), func(cfg *allowkv.Config) { keys = cfg.PublicKeysFile })
	older, newer := d.signer, allowkvtest.Signer(t)
	if err := os.WriteFile(keys, []byte("half a li"), 0o600); err != nil {
		t.Fatal(err)
	}
	x.until("the unusable file", func() bool { return x.counter("keys_usable") == 0 })
	denied := x.denials()
	allowkvtest.WriteKeys(t, keys, older, newer)
	x.until("both keys", func() bool {
		return x.counter("keys_usable") == 1 && strings.Contains(x.log.String(), string(newer.Public().ID()))
	})
	if n := denied(); n != 0 {
		t.Errorf("team-a was refused %d times while a key was added", n)
	}
	d.halt()
	d.scribe = newScribe(t, newer, 2)
	d.revision = 1
	d.publish("team-a", "team-b")
	d.start()
	x.answers("team-b", "")
	allowkvtest.WriteKeys(t, keys, newer)
	x.until("one key", func() bool { return strings.Count(x.log.String(), "the public keys have changed") == 2 })
	x.answers("team-b", "")

	// Now the one key goes that everything held is signed with.
	allowkvtest.WriteKeys(t, keys, older)
	x.answers("team-b", verdict.Invalid)
	allowkvtest.WriteKeys(t, keys, newer)
	x.answers("team-b", "")
}
