package tokenauth_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// TestDisclosed: the search that every test here ends with can fail, and does not for what all tokens share.
func TestDisclosed(t *testing.T) {
	t.Parallel()
	const token = "eyJhbGciOiJSUzI1NiIsImtpZCI6InRlc3QifQ.eyJhdWQiOlsib3BlbnNoZWxsLWdhdGV3YXkiXX0.c2lnbmF0dXJlIG9mIHRoZSB0b2tlbiB0aGF0IGlzIGxvbmc"
	parts := strings.Split(token, ".")
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"all":              {"before " + token + " after", true},
		"claims":           {parts[1], true},
		"signature":        {parts[2], true},
		"a piece":          {"x" + parts[2][5:34], true},
		"header":           {parts[0], false},
		"nothing":          {"", false},
		"some other token": {strings.ToUpper(token), false},
	} {
		if got := tokenauth.Disclosed(c.text, token); (got != "") != c.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
