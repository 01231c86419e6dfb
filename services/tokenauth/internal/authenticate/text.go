package authenticate

import (
	"fmt"
	"strings"
	"unicode"
)

// quote shows text from elsewhere inside a message, on one line and cut short.
func quote(s string) string {
	const limit = 80
	if len(s) > limit {
		return fmt.Sprintf("%q... (%d bytes)", strings.ToValidUTF8(s[:limit], ""), len(s))
	}
	return fmt.Sprintf("%q", s)
}

// quoteAll shows the first values of a list.
func quoteAll(values []string) string {
	const limit = 3
	var b strings.Builder
	b.WriteByte('[')
	for i, v := range values {
		if i == limit {
			fmt.Fprintf(&b, " and %d more", len(values)-limit)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(quote(v))
	}
	b.WriteByte(']')
	return b.String()
}

// harmless shows what the API server said about a credential. It may have been made from what the bearer sent, so no run of
// characters in it is left that is long enough to be a part of a token.
func harmless(text string) string {
	const longestRun = 24
	var b, run strings.Builder
	flush := func() {
		if run.Len() > longestRun {
			fmt.Fprintf(&b, "[%d characters]", run.Len())
		} else {
			b.WriteString(run.String())
		}
		run.Reset()
	}
	for _, r := range text {
		if b.Len() > longestText {
			break
		}
		if inToken(r) {
			run.WriteRune(r)
			continue
		}
		flush()
		b.WriteRune(r)
	}
	flush()
	return line(b.String())
}

// inToken reports whether r can be a part of a JWT: base64 in the alphabet for URLs. The dots between the parts are not
// counted, or the host names in errors would go.
func inToken(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// longestText is about how many bytes of a text of others an explanation shows.
const longestText = 300

// line shows a text of others on one line and cut short.
func line(text string) string {
	cut := len(text) > longestText
	if cut {
		text = text[:longestText]
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
	if cut {
		text += "..."
	}
	return text
}
