package demo

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The columns. A detail that fits stands in the line; one that does not has lines of its own below.
const (
	width      = 108
	whatColumn = 46
	indent     = 17
)

// Style decides how moments look.
type Style struct {
	// Colour is for terminals only.
	Colour bool
}

const (
	bold   = "1"
	dim    = "2"
	red    = "1;31"
	green  = "32"
	yellow = "33"
	cyan   = "1;36"
)

func (s Style) paint(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Render is the moment as lines for people, each ended by a newline.
func (s Style) Render(m Moment) string {
	switch m.Kind {
	case Title:
		return s.paint(bold, m.What) + "\n" + s.block(m.Detail, "", 0)
	case Step:
		return "\n" + s.paint(cyan, m.What) + "\n" + s.block(m.Detail, dim, 3)
	case Held:
		return s.line(m, s.paint(green, "ok  "))
	case Broken:
		return s.line(m, s.paint(red, "FAIL"))
	case NotShown:
		return s.line(m, s.paint(yellow, "skip"))
	case Output:
		return s.quote(m.Detail)
	case Summary:
		return "\n" + s.paint(bold, m.What) + "\n" + s.block(m.Detail, "", 0)
	default:
		return s.line(m, "    ")
	}
}

// line is a moment with its time: "  12.3 s  ok   what ....   312 ms  detail".
func (s Style) line(m Moment, mark string) string {
	head := s.paint(dim, fmt.Sprintf("%9s", clock(m.At))) + "  " + mark + "  "
	took := ""
	if m.Took > 0 {
		took = span(m.Took)
	}
	what, below := printable(m.What), m.Detail
	room := width - indent - whatColumn - 11
	if utf8.RuneCountInString(what) <= whatColumn && utf8.RuneCountInString(below) <= room && !strings.Contains(below, "\n") {
		text := fmt.Sprintf("%-*s %8s  %s", whatColumn, what, took, s.paint(dim, printable(below)))
		return head + strings.TrimRight(text, " ") + "\n"
	}
	text := what
	if took != "" {
		text = fmt.Sprintf("%-*s %8s", whatColumn, what, took)
	}
	return head + text + "\n" + s.block(below, dim, indent)
}

// block are paragraphs, wrapped and indented.
func (s Style) block(text, code string, by int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for _, wrapped := range wrap(printable(line), width-by) {
			b.WriteString(strings.Repeat(" ", by) + s.paint(code, wrapped) + "\n")
		}
	}
	return b.String()
}

// quote is what a program said, as it said it.
func (s Style) quote(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Repeat(" ", indent) + s.paint(yellow, "| ") + strings.TrimRight(printable(line), " ") + "\n")
	}
	return b.String()
}

// printable leaves out what a terminal would act on.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, line)
}

// wrap breaks a line between words. A word that is longer than the line stands alone. Lines that begin with a space are as they are.
func wrap(line string, most int) []string {
	if strings.HasPrefix(line, " ") || utf8.RuneCountInString(line) <= most {
		return []string{line}
	}
	var lines []string
	current := ""
	for word := range strings.FieldsSeq(line) {
		switch {
		case current == "":
			current = word
		case utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) > most:
			lines = append(lines, current)
			current = word
		default:
			current += " " + word
		}
	}
	return append(lines, current)
}

// clock is a time since the beginning.
func clock(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// span is how long something took, with three figures.
func span(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}
