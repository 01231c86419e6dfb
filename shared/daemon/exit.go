package daemon

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Exit codes of a daemon. A second signal exits with 128 plus its number instead.
const (
	// ExitRequested: the stop was asked for and went well.
	ExitRequested = 0
	// ExitFailed: the start failed, a task failed, or the stop did not go well.
	ExitFailed = 1
)

// Exit codes that a command may choose, inclusive. What is above has a meaning for shells.
const (
	leastChosen = 2
	mostChosen  = 125
)

// coded is an error that says how a command exits.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// WithExitCode makes Exit give code for err, and for every error that err is in. A code outside 2 to 125 is ExitFailed; a
// nil err stays nil.
func WithExitCode(err error, code int) error {
	if err == nil {
		return nil
	}
	if code < leastChosen || code > mostChosen {
		code = ExitFailed
	}
	return coded{err, code}
}

// maxExitLines bounds what Exit prints of one error.
const maxExitLines = 100

// Exit writes the outcome of a daemon to stderr and returns the exit code. A nil
// err writes nothing and gives ExitRequested. Any other gives ExitFailed, or the code
// that WithExitCode has put into it, and one
// line per line of the error's text, each begun with the daemon's name and with
// control characters replaced, so that text from files or peers cannot forge lines
// or drive a terminal. There is never a stack trace.
func Exit(stderr io.Writer, daemon string, err error) int {
	if err == nil {
		return ExitRequested
	}
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(err.Error(), "\n"), "\n")
	for i, line := range lines {
		if i == maxExitLines {
			fmt.Fprintf(&out, "%s: ... and %d more lines\n", daemon, len(lines)-i)
			break
		}
		fmt.Fprintf(&out, "%s: %s\n", daemon, printable(line))
	}
	// There is nowhere left to report that stderr is gone.
	_, _ = io.WriteString(stderr, out.String())
	if chosen := (coded{}); errors.As(err, &chosen) {
		return chosen.code
	}
	return ExitFailed
}

// printable replaces what a terminal or a line reader could act on.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsGraphic(r):
			return r
		}
		return '?'
	}, line)
}
