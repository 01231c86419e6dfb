package excerpt_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
)

func TestExcerpts(t *testing.T) {
	for name, tc := range map[string]struct{ text, of, line string }{
		"empty":                {"", "", ""},
		"short":                {"a b", "a b", "a b"},
		"as long as it may be": {"12345678", "12345678", "12345678"},
		"longer":               {"123456789", "12345678...", "12345678"},
		"through a character":  {"1234567é9", "1234567...", "1234567"},
		"invalid":              {"a\xffb\xc3", "ab", "ab"},
		"several lines":        {"a\nb\r\tc", "a\nb\r\tc", "a b  c"},
		"control characters":   {"a\x00\x1b\x7fb", "a\x00\x1b\x7fb", "ab"},
		"space at its ends":    {" a \n", " a \n", "a"},
	} {
		const most = 8
		if got := excerpt.Of(tc.text, most); got != tc.of {
			t.Errorf("%s: Of %q, want %q", name, got, tc.of)
		}
		if got := excerpt.Line(tc.text, most); got != tc.line {
			t.Errorf("%s: Line %q, want %q", name, got, tc.line)
		}
	}
}

func FuzzExcerpts(f *testing.F) {
	for _, seed := range []string{"", "a\xff\né", "\xff\xfe", strings.Repeat("é", 600), "\u2028x", "�"} {
		f.Add(seed, 10)
	}
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(0, most%4096)
		if got := excerpt.Of(text, most); !utf8.ValidString(got) || len(got) > most+len("...") {
			t.Errorf("Of %q", got)
		}
		got := excerpt.Line(text, most)
		if !utf8.ValidString(got) || len(got) > most || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.TrimFunc(got, unicode.IsSpace) != got {
			t.Errorf("Line %q", got)
		}
		if again := excerpt.Line(got, most); again != got {
			t.Errorf("Line %q becomes %q", got, again)
		}
	})
}
