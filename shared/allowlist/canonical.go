package allowlist

import (
	"strconv"
	"strings"
	"time"
)

// timeLayout is the only form of a time in a record.
const timeLayout = "2006-01-02T15:04:05.000Z"

// writable reports whether t has the form of a time in a record: UTC, whole milliseconds, four digits of year.
func writable(t time.Time) bool {
	return t.Location() == time.UTC && t.Nanosecond()%int(time.Millisecond) == 0 && t.Year() >= 1970 && t.Year() <= 9999
}

// stampTime gives t the form of a time in a record, at the cost of less than a millisecond.
func stampTime(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// appendText appends s as a canonical JSON string. s has passed its check, so it holds no control characters.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	if strings.IndexByte(s, '"') < 0 && strings.IndexByte(s, '\\') < 0 {
		return append(append(b, s...), '"')
	}
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// appendString appends a field. Its key is `{"name":` or `,"name":`, with all punctuation, which keeps an encoder
// readable as the form that it writes.
func appendString(b []byte, key, s string) []byte { return appendText(append(b, key...), s) }

func appendWhole(b []byte, key string, n uint64) []byte {
	return strconv.AppendUint(append(b, key...), n, 10)
}

func appendTime(b []byte, key string, t time.Time) []byte {
	return appendText(append(b, key...), t.Format(timeLayout))
}

func appendNames(b []byte, key string, names []string) []byte {
	b = append(append(b, key...), '[')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, name)
	}
	return append(b, ']')
}
