package daemon

import (
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

// maxExitLines bounds what Exit prints of one error.
const maxExitLines = 100

// Exit writes the outcome of a daemon to stderr and returns the exit code. A nil
// err writes nothing and gives ExitRequested. Any other gives ExitFailed and one
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
