package filesource

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TestFollowAgain removes a watched directory and makes it anew before it is followed again, so that everything about
// it, the inode too, may be as before. It must be watched.
func TestFollowAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	must(t, os.Mkdir(dir, 0o700))
	n := notifications{make: newInotify}
	must(t, n.open())
	defer n.close()
	info, err := os.Stat(dir)
	must(t, err)
	wanted := []place{{path: dir, info: info}}
	must(t, n.follow(wanted))
	must(t, os.Remove(dir))
	awaitEvent(t, &n, dir)
	must(t, os.Mkdir(dir, 0o700), n.follow(wanted))
	write(t, filepath.Join(dir, "f"), base)
	awaitEvent(t, &n, filepath.Join(dir, "f"))
}

func awaitEvent(t *testing.T, n *notifications, name string) {
	t.Helper()
	events, errs := n.channels()
	limit := time.After(patience)
	for {
		select {
		case e := <-events:
			if e.Name == name {
				return
			}
		case err := <-errs:
			t.Fatal(err)
		case <-limit:
			t.Fatalf("no event for %s", name)
		}
	}
}

// TestEventDuringRead has a change notified while a read is under way, which may have missed it: another read follows.
func TestEventDuringRead(t *testing.T) {
	h := newHarness(t, rarely)
	g := newGate(h)
	w := newScripted()
	h.newWatcher = func() (watcher, error) { return w, nil }
	write(t, h.path, `["a"]`)
	h.run()
	g.enter()
	w.events <- fsnotify.Event{Name: h.path, Op: fsnotify.Write}
	g.pass()
	h.listed("a")
	g.through()
	h.proved()
	finish(h, g)
}
