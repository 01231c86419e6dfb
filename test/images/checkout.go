package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Checkout is the sources of a commit in a directory of their own, as Options wants them.
type Checkout struct {
	Root  string
	Stamp Stamp
}

// maxSource bounds one unpacked file, and maxSources all of them: an archive of git's is trusted no more than another.
const (
	maxSource  = 64 << 20
	maxSources = 1 << 30
)

// CheckOut unpacks the sources of a revision of the repository at root into a directory, which must be empty. The repository is not
// changed, nor is its work tree looked at. A revision that the clone does not hold, as one that is shallow may not, is an error that
// says how to get it.
func CheckOut(ctx context.Context, root, revision, into string) (Checkout, error) {
	c := Checkout{Root: into}
	commit, err := git(ctx, root, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if err != nil {
		return c, fmt.Errorf("find commit %q: %w%s", revision, err, missing(ctx, root))
	}
	seconds, err := git(ctx, root, "log", "-1", "--format=%ct", commit)
	if err != nil {
		return c, err
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return c, fmt.Errorf("the time of commit %s is %q", commit, seconds)
	}
	version, err := git(ctx, root, "describe", "--tags", "--always", commit)
	if err != nil {
		return c, err
	}
	c.Stamp = Stamp{Version: version, Commit: commit, Time: time.Unix(at, 0).UTC()}
	if err := export(ctx, root, commit, into); err != nil {
		return c, fmt.Errorf("unpack the sources of commit %s: %w%s", commit, err, missing(ctx, root))
	}
	return c, nil
}

// missing is what to do about a commit that is not there.
func missing(ctx context.Context, root string) string {
	if shallow, err := git(ctx, root, "rev-parse", "--is-shallow-repository"); err == nil && shallow == "true" {
		return "; this clone is shallow: run `git fetch --deepen=1` for the parent of what is checked out, or `git fetch --unshallow`"
	}
	return "; run `git fetch --all --tags`, or name a commit that `git log` shows"
}

// export has git write the commit as an archive, and unpacks it.
func export(ctx context.Context, root, commit, into string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // whoever stops reading stops git
	cmd := exec.CommandContext(ctx, "git", "archive", "--format=tar", commit)
	cmd.Dir = root
	var said strings.Builder
	cmd.Stderr = &said
	archive, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = unpack(archive, into)
	if err != nil {
		cancel()
	}
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("git archive: %w: %s", ended, strings.TrimSpace(said.String()))
	}
	return err
}

// unpack writes the files of an archive below a directory, and nothing outside it.
func unpack(from io.Reader, into string) (err error) {
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	left := int64(maxSources)
	for in := tar.NewReader(from); ; {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			return drained(from)
		}
		if err != nil {
			return err
		}
		if left -= entry.Size; entry.Size > maxSource || left < 0 {
			return fmt.Errorf("%s: a file has at most %d bytes, and all have %d", entry.Name, maxSource, maxSources)
		}
		if err := place(root, entry, in); err != nil {
			return fmt.Errorf("%s: %w", entry.Name, err)
		}
	}
}

// drained reads what follows the end of the archive, so that whoever writes it can end.
func drained(from io.Reader) error {
	_, err := io.Copy(io.Discard, io.LimitReader(from, maxSource))
	return err
}

// place writes one file. What is neither file, directory nor a link that stays inside is refused.
func place(root *os.Root, entry *tar.Header, content io.Reader) (err error) {
	name := filepath.FromSlash(strings.TrimSuffix(entry.Name, "/"))
	switch entry.Typeflag {
	case tar.TypeXGlobalHeader: // git's own, with the commit
		return nil
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		if filepath.IsAbs(entry.Linkname) || !filepath.IsLocal(filepath.Join(filepath.Dir(name), entry.Linkname)) {
			return fmt.Errorf("it is a link to %q, which is outside", entry.Linkname)
		}
		return root.Symlink(entry.Linkname, name)
	case tar.TypeReg:
	default:
		return fmt.Errorf("it is of type %q", entry.Typeflag)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, entry.FileInfo().Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.Copy(file, content)
	return err
}

// git asks git about the repository at root.
func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
