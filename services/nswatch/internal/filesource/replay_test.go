package filesource

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"
)

// volume is a ConfigMap volume as the kubelet writes it: the file is a link into ..data, which is a link to a directory
// with a time in its name; an update makes a new directory, swaps ..data by rename and removes the old directory.
type volume struct {
	t       *testing.T
	dir     string
	current string
}

func newVolume(t *testing.T, content string) *volume {
	t.Helper()
	v := &volume{t: t, dir: t.TempDir()}
	v.update(content)
	must(t, os.Symlink("..data/list.json", v.file()))
	return v
}

func (v *volume) file() string { return filepath.Join(v.dir, "list.json") }

func (v *volume) update(content string) {
	v.t.Helper()
	next, err := os.MkdirTemp(v.dir, "..2026_11_29_")
	must(v.t, err, os.WriteFile(filepath.Join(next, "list.json"), []byte(content), 0o600),
		os.Symlink(filepath.Base(next), filepath.Join(v.dir, "..data_tmp")),
		os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data")))
	if v.current != "" {
		must(v.t, os.RemoveAll(v.current))
	}
	v.current = next
}

// TestReplayF01: the file of a ConfigMap volume never changes itself; only a link beside it does.
func TestReplayF01(t *testing.T) {
	h := newHarness(t, rarely)
	v := newVolume(t, `["a"]`)
	h.at(v.file())
	h.run()
	h.listed("a")
	v.update(`["b"]`)
	h.listed("b")
}

// TestReplayF02: the removal of the directory that a link led to must not end the watch.
func TestReplayF02(t *testing.T) {
	h := newHarness(t, rarely)
	v := newVolume(t, `["a"]`)
	h.at(v.file())
	h.run()
	h.listed("a")
	for _, name := range []string{"b", "c", "d"} {
		v.update(`["` + name + `"]`)
		h.listed(name)
	}
	h.until("notifications", h.working)
	if n := h.log.count("not notified"); n != 0 {
		t.Errorf("swaps are taken for trouble:\n%s", h.log)
	}
}

// TestReplayF04: a watcher that loses the create of a file that was removed. The poll finds it.
func TestReplayF04(t *testing.T) {
	h := newHarness(t, often)
	h.newWatcher = func() (watcher, error) { return newScripted(), nil }
	write(t, h.path, `["a"]`)
	h.run()
	h.listed("a")
	must(t, os.Remove(h.path))
	h.fails(resultMissing)
	write(t, h.path, `["b"]`)
	h.listed("b")
}

// TestReplayF07: moves and deletes behind links, of the file and of its directories.
func TestReplayF07(t *testing.T) {
	h := newHarness(t, rarely)
	root := filepath.Dir(h.path)
	target, spare := filepath.Join(root, "real"), filepath.Join(root, "spare")
	must(t, os.Mkdir(target, 0o700), os.Mkdir(spare, 0o700), os.Mkdir(filepath.Join(root, "links"), 0o700))
	write(t, filepath.Join(target, "f"), `["a"]`)
	write(t, filepath.Join(spare, "f"), `["spare"]`)
	link := filepath.Join(root, "links", "dir")
	must(t, os.Symlink(target, link))
	h.at(filepath.Join(link, "f"))
	h.run()
	h.listed("a")

	write(t, filepath.Join(target, "f"), `["b"]`)
	h.listed("b")
	must(t, os.Rename(filepath.Join(target, "f"), filepath.Join(target, "away")))
	h.fails(resultMissing)
	must(t, os.Rename(filepath.Join(target, "away"), filepath.Join(target, "f")))
	h.proved()
	must(t, os.RemoveAll(target))
	h.fails(resultMissing)
	must(t, os.Rename(spare, target))
	h.listed("spare")
	write(t, filepath.Join(target, "f"), `["c"]`)
	h.listed("c")
	must(t, os.Remove(link), os.Symlink("nowhere", link))
	h.fails(resultMissing)
	must(t, os.Remove(link), os.Symlink("../real", link))
	h.proved()
}

// TestReplayF08: no watcher can be made. Changes are polled, the cause is said once, and when a watcher can be made it
// is used.
func TestReplayF08(t *testing.T) {
	h := newHarness(t, often)
	allowed := make(chan struct{})
	h.newWatcher = func() (watcher, error) {
		select {
		case <-allowed:
			return newInotify()
		default:
			return nil, os.NewSyscallError("inotify_init1", unix.EMFILE)
		}
	}
	write(t, h.path, `["a"]`)
	h.run()
	h.listed("a")
	if h.working() {
		t.Error("notifications are said to work")
	}
	write(t, h.path, `["b"]`)
	h.listed("b")
	h.until("several attempts", func() bool { return h.troubles(troubleCreate) >= 3 })
	if n := h.log.count("too many open files"); n != 1 || h.log.count("fs.inotify.max_user_instances") != 1 {
		t.Errorf("the cause is in %d lines, want one that names the limit:\n%s", n, h.log)
	}
	close(allowed)
	h.until("notifications", h.working)
	h.until("the line of the recovery", func() bool { return h.log.count("notified again") == 1 })
	write(t, h.path, `["c"]`)
	h.listed("c")
}

// TestReplayF11: a receiver that takes nothing. Events are not lost and no goroutine waits for ever.
func TestReplayF11(t *testing.T) {
	h := newHarness(t, rarely)
	write(t, h.path, `["a"]`)
	entered, release := make(chan struct{}, 100), make(chan struct{})
	h.hold = func() {
		entered <- struct{}{}
		<-release
	}
	h.run()
	<-entered
	for i := range 300 {
		must(t, os.WriteFile(filepath.Join(filepath.Dir(h.path), "other"), []byte{byte(i)}, 0o600))
	}
	write(t, h.path, `["b"]`)
	close(release)
	h.listed("a")
	h.listed("b")
	h.stop()
}

// TestReplayF13: a file that is truncated, half written, and then whole. No step changes the list but the last.
func TestReplayF13(t *testing.T) {
	h := newHarness(t, rarely)
	write(t, h.path, base)
	h.run()
	first := h.listed("team-a", "team-b")
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	defer f.Close()
	h.fails(resultEmpty)
	_, err = f.WriteString(`["team-a","te`)
	must(t, err)
	h.fails(resultJSON)
	_, err = f.WriteString(`am-c"]`)
	must(t, err)
	if last := h.listed("team-a", "team-c"); last.ProvenAt <= first.ProvenAt {
		t.Errorf("proven at %s after %s", last.ProvenAt, first.ProvenAt)
	}
}

// TestReplayF14: people see the last success and the version that is used.
func TestReplayF14(t *testing.T) {
	h := newHarness(t, often)
	write(t, h.path, base)
	h.run()
	in := h.listed("team-a", "team-b")
	if h.log.count(in.Version) != 1 {
		t.Errorf("the version is not in one line of the log:\n%s", h.log)
	}
	last := func() float64 { return testutil.ToFloat64(h.metrics.last) }
	good := last()
	h.until("another success", func() bool { return last() > good })
	write(t, h.path, "null")
	h.fails(resultShape)
	good = last()
	h.fails(resultShape)
	h.fails(resultShape)
	if last() != good {
		t.Error("a failure moves the last success")
	}
}

// TestRecreatedDirectory removes the directory of the file and makes it anew, also with the inode of before.
func TestRecreatedDirectory(t *testing.T) {
	h := newHarness(t, rarely)
	dir := filepath.Join(filepath.Dir(h.path), "dir")
	h.at(filepath.Join(dir, "f"))
	h.run()
	h.fails(resultMissing)
	for range 3 {
		must(t, os.Mkdir(dir, 0o700))
		write(t, h.path, `["a"]`)
		h.listed("a")
		write(t, h.path, `["b"]`)
		h.listed("b")
		must(t, os.RemoveAll(dir))
		h.fails(resultMissing)
	}
}

// TestRenameOver is a careful writer, many times.
func TestRenameOver(t *testing.T) {
	h := newHarness(t, rarely)
	write(t, h.path, `["n0"]`)
	h.run()
	h.listed("n0")
	for _, name := range strings.Fields("n1 n2 n3 n4 n5") {
		write(t, h.path, `["`+name+`"]`)
		h.listed(name)
	}
}

// TestOverflow loses notifications: one reload makes up for all.
func TestOverflow(t *testing.T) {
	h := newHarness(t, rarely)
	w := newScripted()
	h.newWatcher = func() (watcher, error) { return w, nil }
	write(t, h.path, `["a"]`)
	h.run()
	h.listed("a")
	write(t, h.path, `["b"]`)
	w.errs <- fsnotify.ErrEventOverflow
	h.listed("b")
	if h.troubles(troubleOverflow) != 1 || !h.working() {
		t.Errorf("%v overflows, working: %v", h.troubles(troubleOverflow), h.working())
	}
}

// TestWatcherEnds breaks the watcher in each way: it is closed and replaced, and the change is found.
func TestWatcherEnds(t *testing.T) {
	for name, end := range map[string]func(*scripted){
		"error":         func(w *scripted) { w.errs <- errors.New("bad descriptor") },
		"events closed": func(w *scripted) { w.closeEvents() },
		"closed":        func(w *scripted) { _ = w.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, often)
			w := newScripted()
			made := 0
			h.newWatcher = func() (watcher, error) {
				if made++; made == 1 {
					return w, nil
				}
				return newInotify()
			}
			write(t, h.path, `["a"]`)
			h.run()
			h.listed("a")
			end(w)
			h.until("the trouble", func() bool { return h.troubles(troubleBroken) == 1 })
			h.until("the end of the watcher", w.ended)
			write(t, h.path, `["b"]`)
			h.listed("b")
			h.until("notifications", func() bool { return h.working() && h.log.count("notified again") == 1 })
			if n := h.log.count("are not notified"); n != 1 {
				t.Errorf("%d lines about it, want one:\n%s", n, h.log)
			}
		})
	}
}

// TestWatchRefused cannot watch a directory; it is tried again with every read.
func TestWatchRefused(t *testing.T) {
	h := newHarness(t, often)
	w := newScripted()
	w.refuse(unix.ENOSPC)
	h.newWatcher = func() (watcher, error) { return w, nil }
	write(t, h.path, `["a"]`)
	h.run()
	h.listed("a")
	h.until("several attempts", func() bool { return h.troubles(troubleWatch) >= 3 })
	if h.working() || h.log.count("fs.inotify.max_user_watches") != 1 {
		t.Errorf("working: %v\n%s", h.working(), h.log)
	}
	w.refuse(nil)
	h.until("notifications", h.working)
}

// TestBusyDirectory has events all the time: they must not put off the reload.
func TestBusyDirectory(t *testing.T) {
	h := newHarness(t, rarely)
	w := newScripted()
	h.newWatcher = func() (watcher, error) { return w, nil }
	write(t, h.path, `["a"]`)
	h.run()
	h.listed("a")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case w.events <- fsnotify.Event{Name: "other", Op: fsnotify.Write}:
			case <-stop:
				return
			}
		}
	}()
	write(t, h.path, `["b"]`)
	h.listed("b")
	close(stop)
	<-stopped
}
