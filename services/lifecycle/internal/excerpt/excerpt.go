package excerpt

import (
	"strings"
	"unicode/utf8"
)

const dots = "..."

// Of is a text without its invalid bytes, of which the first most bytes stay, and dots behind them if there was more.
func Of(text string, most int) string {
	rest := ""
	if len(text) > most {
		text, rest = text[:most], dots
	}
	return strings.ToValidUTF8(text, "") + rest
}

// Line is a text in one line without control characters, of at most most bytes and without space at its ends. It shares nothing with the text,
// which may be a part of something large.
func Line(text string, most int) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r == 0x7f || r == utf8.RuneError:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), most)], ""))
	return strings.Clone(strings.TrimSpace(plain))
}
