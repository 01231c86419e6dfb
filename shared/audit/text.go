package audit

import (
	"strings"
	"unicode/utf8"
)

// Longest texts of an Entry, bytes. A name of Kubernetes has 253 at most, a uid 36; a caller may be a SPIFFE id.
const (
	maxName = 253
	maxWord = 64
	maxID   = 128
)

const (
	// withheld stands for a text that may be a token.
	withheld = "[withheld]"
	// jwtStart is how every JWT, and every part of one that says something, begins: the base64 of {".
	jwtStart = "eyJ"
	// cutMark ends a text that was cut.
	cutMark = "..."
)

// RequestID is a caller's id of a request as an Entry and its log line have it, for other lines about the same request: at
// most 128 bytes of printable ASCII, cut and replaced as an Event says, and withheld when it looks like a JWT.
func RequestID(text string) string { return identifier(text, maxID) }

// identifier is text as it may be kept: printable ASCII, at most limit bytes, not a JWT. A text that is already so is
// returned as it is, with the memory that it is a part of; any other is copied.
func identifier(text string, limit int) string {
	// Before the cut, which could remove what gives a token away.
	if len(text) >= len(jwtStart) && strings.Contains(text, jwtStart) {
		return withheld
	}
	if len(text) <= limit && printable(text) {
		return text
	}
	cut := text
	if len(text) > limit {
		cut = text[:limit-len(cutMark)]
	}
	kept := []byte(cut)
	for i, b := range kept {
		if !plain(b) {
			kept[i] = '?'
		}
	}
	if len(text) > limit {
		kept = append(kept, cutMark...)
	}
	return string(kept)
}

func printable(text string) bool {
	for i := range len(text) {
		if !plain(text[i]) {
			return false
		}
	}
	return true
}

// plain reports a byte that JSON shows as it is, so that a text is never longer in JSON than its limit: not a quote, a
// backslash, or one of the three that encoders for HTML escape.
func plain(b byte) bool {
	return b >= ' ' && b < utf8.RuneSelf-1 && b != '"' && b != '\\' && b != '<' && b != '>' && b != '&'
}
