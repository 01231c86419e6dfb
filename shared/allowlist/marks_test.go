package allowlist

import (
	"bytes"
	"strings"
	"testing"
)

func TestMarksFile(t *testing.T) {
	m := Marks{Epoch: 1_796_000_000_000, Revision: 42, Digest: digestOf([]byte("x")), Beat: 7}
	file := EncodeMarks(gateway, m)
	const want = `{"schema":1,"gateway_id":"team-gateway","epoch":1796000000000,"revision":42,` +
		`"digest":"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","beat":7,"forked":false}` + "\n"
	if string(file) != want {
		t.Errorf("marks are stored as %s", file)
	}
	for _, m := range []Marks{m, {}, {Epoch: 1, Revision: 1, Digest: m.Digest, Forked: true}} {
		if got, err := DecodeMarks(gateway, EncodeMarks(gateway, m)); err != nil || got != m {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
	}
	for _, c := range []struct{ name, old, with, want string }{
		{"empty", want, "", "ends"},
		{"other gateway", "team-gateway", "other", "those of gateway"},
		{"other schema", `"schema":1`, `"schema":2`, "schema 2"},
		{"half a mark", `"revision":42`, `"revision":0`, "must be from 1"},
		{"no digest", m.Digest.String(), "", "no digest"},
		{"cut", "false}\n", "fal", `where "false" is due`},
		{"no line end", "}\n", "}", "ends"},
		{"more", "}\n", "}\n\n", "follow the end"},
		{"forked of no kind", "false", "maybe", `where "false" is due`},
	} {
		if _, err := DecodeMarks(gateway, []byte(replaceOnce(t, want, c.old, c.with))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzMarks(f *testing.F) {
	f.Add(EncodeMarks(gateway, Marks{Epoch: 1, Revision: 2, Digest: Digest{1}, Beat: 3, Forked: true}))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if m, err := DecodeMarks(gateway, file); err == nil && !bytes.Equal(EncodeMarks(gateway, m), file) {
			t.Errorf("%q is read as %+v and written otherwise", file, m)
		}
	})
}
