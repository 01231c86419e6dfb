package inspection

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// clean replaces what a terminal or a line reader could act on.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) && r != '\u2028' && r != '\u2029' {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
}

func cleanAll(all []string) []string {
	var cleaned []string
	for _, s := range all {
		cleaned = append(cleaned, clean(s))
	}
	return cleaned
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// ago says how old something is.
func ago(ageMS *int64) string {
	if ageMS == nil {
		return "at an unknown time"
	}
	age := time.Duration(*ageMS) * time.Millisecond
	if age < 0 {
		return fmt.Sprintf("%s in the future", -age)
	}
	return fmt.Sprintf("%s ago", age)
}

// timeForm is RFC 3339 with milliseconds, which is what records have.
const timeForm = "2006-01-02T15:04:05.000Z07:00"

func stamp(t time.Time) string { return t.UTC().Format(timeForm) }

// names lists the first few of a change.
func names(all []string, more uint64) string {
	const limit = 5
	shown := all[:min(len(all), limit)]
	text := strings.Join(shown, ",")
	if hidden := uint64(len(all)-len(shown)) + more; hidden > 0 {
		text += fmt.Sprintf(",+%d", hidden)
	}
	if text == "" {
		return "-"
	}
	return text
}
