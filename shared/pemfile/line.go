package pemfile

import (
	"strings"
	"unicode"
)

// OneLine returns err with a text of one line: lines are joined with "; ", control characters become spaces. A start-up
// error, a readiness reason and a log field are one line each, and texts of libraries are not always. errors.Is and
// errors.As see through it. OneLine(nil) is nil.
func OneLine(err error) error {
	if err == nil {
		return nil
	}
	return lineError{err}
}

type lineError struct{ error }

func (e lineError) Error() string {
	var lines []string
	for line := range strings.FieldsFuncSeq(e.error.Error(), func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, line))
		if line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

func (e lineError) Unwrap() error { return e.error }
