package filesource

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// attempts is how often a file that keeps changing is read before that is a failure.
	attempts = 4
	// settle is how long a file must have been left alone for one read of it to count. It is longer than the grain of
	// the kernel's file times (4 to 10 ms), within which two writes look like one, and as long as the gathering of
	// notifications, so that a read caused by one rarely has to wait for it.
	settle = 20 * time.Millisecond
)

// file is what is read; *os.File is one.
type file interface {
	io.ReadCloser
	Stat() (fs.FileInfo, error)
}

var _ file = (*os.File)(nil)

// openFile opens what must be a regular file, after links. Nothing else is opened, because opening alone has effects
// on some devices; and should the file become something else in between, the open does not wait for the other end of
// a FIFO and does not take a terminal.
func openFile(path string) (file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := checkKind(info); err != nil {
		return nil, err
	}
	return os.OpenFile(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

// reader reads one file whole.
type reader struct {
	path string
	open func(path string) (file, error)
	now  func() time.Time
}

// read returns the content of the file as it was at some instant after the call. Errors carry their result.
func (r *reader) read(ctx context.Context) ([]byte, error) {
	var before content
	for try := range attempts {
		if try > 0 {
			if err := pause(ctx, settle); err != nil {
				return nil, err
			}
		}
		now, err := r.once()
		if err != nil {
			return nil, r.explain(err)
		}
		if now.whole && (now.settled || try > 0 && before.same(now)) {
			return now.bytes, nil
		}
		before = now
	}
	return nil, failf(resultUnstable, "it changed during each of %d reads; write a new file and rename it over this one", attempts)
}

// content is what one pass over the file gave.
type content struct {
	bytes []byte
	info  fs.FileInfo
	// whole says that the file was the same before and after the pass.
	whole bool
	// settled says that it had not changed for a while when the pass began.
	settled bool
}

// same reports whether two passes saw the same file, unchanged.
func (c content) same(other content) bool {
	return c.whole && unchanged(c.info, other.info) && bytes.Equal(c.bytes, other.bytes)
}

func (r *reader) once() (content, error) {
	began := r.now()
	f, err := r.open(r.path)
	if err != nil {
		return content{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return content{}, err
	}
	if err := checkKind(info); err != nil {
		return content{}, err
	}
	if info.Size() > MaxFile {
		return content{}, tooLarge()
	}
	// A size is a promise only: the limit holds for files that grow, too.
	all, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return content{}, err
	}
	if len(all) > MaxFile {
		return content{}, tooLarge()
	}
	after, err := f.Stat()
	if err != nil {
		return content{}, err
	}
	return content{bytes: all, info: info, whole: unchanged(info, after), settled: began.Sub(changedAt(info)) >= settle}, nil
}

// changedAt is the newer of the times at which content and inode changed; the former can be set by anyone who may
// write the file.
func changedAt(info fs.FileInfo) time.Time {
	at := info.ModTime()
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		if changed := time.Unix(s.Ctim.Unix()); changed.After(at) {
			return changed
		}
	}
	return at
}

// unchanged reports whether two states are of one file with one content, as far as the file system tells.
func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && changedAt(a).Equal(changedAt(b))
}

func tooLarge() error {
	return failf(resultTooLarge, "it is larger than %d bytes; no list that long can be published", MaxFile)
}

func checkKind(info fs.FileInfo) error {
	const want = "want a regular file, or a symbolic link to one"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return failf(resultDirectory, "it is a directory; %s", want)
	case mode&fs.ModeNamedPipe != 0:
		return failf(resultFIFO, "it is a FIFO, which is never read; %s", want)
	case mode&fs.ModeSocket != 0:
		return failf(resultSocket, "it is a socket; %s", want)
	case mode&fs.ModeDevice != 0:
		return failf(resultDevice, "it is a device, which is never read; %s", want)
	default:
		return failf(resultOtherSystem, "it has mode %s; %s", mode, want)
	}
}

// explain gives an error of the system its result, and says what to do.
func (r *reader) explain(err error) error {
	if f := (*failure)(nil); errors.As(err, &f) {
		return err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // the path is named once, by the caller
	}
	switch {
	case errors.Is(err, syscall.ELOOP):
		return failf(resultLoop, "its symbolic links lead in a circle, or there are too many: %w", err)
	case errors.Is(err, fs.ErrNotExist):
		if target, linkErr := os.Readlink(r.path); linkErr == nil {
			return failf(resultDangling, "it is a symbolic link to %s, which leads nowhere: %w", quote(target), err)
		}
		return failf(resultMissing, "it does not exist; create it, an empty list is []: %w", err)
	case errors.Is(err, syscall.ENOTDIR):
		return failf(resultMissing, "something on the way to it is not a directory: %w", err)
	case errors.Is(err, fs.ErrPermission):
		return failf(resultUnreadable, "let the user of this process (uid %d) read it, and search its directories: %w", os.Geteuid(), err)
	default:
		return failf(resultOtherSystem, "it cannot be read: %w", err)
	}
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return failf(resultOtherSystem, "the read was stopped: %w", context.Cause(ctx))
	case <-timer.C:
		return nil
	}
}
