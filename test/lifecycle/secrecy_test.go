package lifecycle

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// TestGuarded: a piece of what is guarded is found in a log, at either end and in any form, and nothing else is.
func TestGuarded(t *testing.T) {
	t.Parallel()
	token := func(mark string) string {
		return "eyJhbGciOiJFZERTQSJ9." + strings.Repeat(mark, 32) + "." + strings.Repeat(strings.ToUpper(mark), 32)
	}
	bundle := fmt.Appendf(nil, `{"supervisor":{"session_id":"one","gateway_token":%q,"sandbox_token":%q}}`, token("g"), token("s"))
	var g guarded
	if err := g.addBundle(bundle); err != nil || !g.add("a word", "correct-horse") {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		log  string
		want string
	}{
		"nothing":                {`{"message":"gRPC call"}`, ""},
		"the header of a token":  {token("g")[:20], ""},
		"the start of a token":   {token("g")[:50], "a gateway's token"},
		"the end of a token":     {token("s")[len(token("s"))-24:], "a sandbox's token"},
		"a word":                 {`{"command":["correct-horse"]}`, "a word"},
		"the bundle":             {string(bundle), "token"},
		"the bundle in base64":   {base64.StdEncoding.EncodeToString(bundle)[:40], "in base64"},
		"the bundle as numbers":  {fmt.Sprint(bundle), "as numbers"},
		"a word beside a secret": {"one line\nand correct-horse is in another\n", "and correct-horse is in another"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(g.found([]byte(c.log)), "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
	if g.add("a short one", "short") || g.addBundle([]byte(`{"supervisor":{}}`)) == nil || g.addBundle([]byte(`{`)) == nil {
		t.Error("it takes what cannot be looked for")
	}
}
