package allowlist

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Suffixes of the two keys of a gateway's list.
const (
	snapshotSuffix  = ".snapshot"
	heartbeatSuffix = ".heartbeat"
)

// SnapshotKey is the key of the list of one gateway in the bucket.
func SnapshotKey(gatewayID string) string { return gatewayID + snapshotSuffix }

// HeartbeatKey is the key of the heartbeats of one gateway in the bucket.
func HeartbeatKey(gatewayID string) string { return gatewayID + heartbeatSuffix }

// CheckNamespace says why name is not a namespace name: a DNS-1123 label of 1 to 63 bytes (contract 4.1). Nil when
// it is one.
func CheckNamespace(name string) error {
	if problem := labelProblem(name); problem != "" {
		return fmt.Errorf("%s is not a namespace name: it %s", quote(name), problem)
	}
	return nil
}

func labelProblem(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > 63:
		return fmt.Sprintf("has %d bytes, at most 63 are allowed", len(name))
	case name[0] == '-' || name[len(name)-1] == '-':
		return "must begin and end with a letter or digit"
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return "may hold only a-z, 0-9 and -"
		}
	}
	return ""
}

// CheckGatewayID says why id cannot name a list: it must be a label value (contract 3.1) that is not empty, and
// without two dots in a row, which the bucket's keys do not allow.
func CheckGatewayID(id string) error {
	alphanumeric := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
	switch {
	case id == "":
		return errors.New("the gateway id is empty")
	case len(id) > 63:
		return fmt.Errorf("gateway id %s has %d bytes, at most 63 are allowed", quote(id), len(id))
	case !alphanumeric(id[0]) || !alphanumeric(id[len(id)-1]):
		return fmt.Errorf("gateway id %s must begin and end with a letter or digit", quote(id))
	case strings.Contains(id, ".."):
		return fmt.Errorf("gateway id %s has two dots in a row", quote(id))
	}
	for i := range len(id) {
		if !alphanumeric(id[i]) && !strings.ContainsRune("-_.", rune(id[i])) {
			return fmt.Errorf("gateway id %s may hold only letters and digits, and -_. between them", quote(id))
		}
	}
	return nil
}

// tokenBytes are those that a token may hold: a list of 10 000 uids has 360 000 to look at.
var tokenBytes = func() (allowed [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") {
		allowed[c] = true
	}
	return allowed
}()

// tokenProblem checks an identifier that people and tools read: a uid, a writer, a version.
func tokenProblem(s string, limit int) string {
	if s == "" {
		return "is empty"
	}
	if len(s) > limit {
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), limit)
	}
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return "may hold only letters, digits, -, _, . and :"
		}
	}
	return ""
}

// textProblem checks free text: one line of valid UTF-8. The set of refused runes is fixed for ever, so that writer
// and reader of different builds agree.
func textProblem(s string, limit int) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > limit:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), limit)
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case strings.ContainsFunc(s, notOneLine):
		return "holds a control character or a line break"
	}
	return ""
}

func notOneLine(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// quote shows text from elsewhere inside a message, on one line and cut short.
func quote(s string) string {
	const limit = 80
	if len(s) <= limit {
		return fmt.Sprintf("%q", s)
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q... (%d bytes)", s[:cut], len(s))
}
