package filesource

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/fsnotify/fsnotify"
)

// watcher is a set of watched directories; an *fsnotify.Watcher, but for tests.
type watcher interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
	// channels are what happens in the directories, and what went wrong. Both are read all the time: Add may wait for
	// that.
	channels() (<-chan fsnotify.Event, <-chan error)
}

type inotify struct{ *fsnotify.Watcher }

func (i inotify) channels() (<-chan fsnotify.Event, <-chan error) { return i.Events, i.Errors }

func newInotify() (watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return inotify{w}, nil
}

// notifications keeps a watcher on the directories that matter. It is used by the run loop and by the goroutine that
// reads, never by both at once.
type notifications struct {
	make    func() (watcher, error)
	watcher watcher
	watched map[string]os.FileInfo
}

// open makes a watcher when there is none. It looks at no path, so that it cannot hang.
func (n *notifications) open() error {
	if n.watcher != nil {
		return nil
	}
	w, err := n.make()
	if err != nil {
		return fmt.Errorf("make a watcher (limits: fs.inotify.max_user_instances, open files): %w", err)
	}
	n.watcher, n.watched = w, map[string]os.FileInfo{}
	return nil
}

// follow watches exactly these directories. Every one is added again each time, because a watch ends silently with
// its directory, and another may have taken the path. One that cannot be watched does not keep the others from it.
func (n *notifications) follow(wanted []place) error {
	if n.watcher == nil {
		return nil // open has said why
	}
	for dir, info := range maps.Clone(n.watched) {
		if !slices.ContainsFunc(wanted, func(p place) bool { return p.path == dir && os.SameFile(p.info, info) }) {
			_ = n.watcher.Remove(dir) // it is usually gone already
			delete(n.watched, dir)
		}
	}
	var problems []error
	for _, p := range wanted {
		err := n.watcher.Add(p.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone just now: an event, or the next poll, leads here again
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("watch %s (limit: fs.inotify.max_user_watches): %w", quote(p.path), err))
			continue
		}
		n.watched[p.path] = p.info
	}
	return errors.Join(problems...)
}

// close ends the watcher, if there is one, with its goroutine. Its channels are read until they are closed: the
// watcher's goroutine may hold the lock that Close needs while it sends an error.
func (n *notifications) close() {
	if n.watcher == nil {
		return
	}
	events, errs := n.watcher.channels()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for range errs {
		}
		for range events {
		}
	}()
	_ = n.watcher.Close() // nothing more can be done about it
	<-drained
	n.watcher, n.watched = nil, nil
}

func (n *notifications) channels() (<-chan fsnotify.Event, <-chan error) {
	if n.watcher == nil {
		return nil, nil
	}
	return n.watcher.channels()
}
