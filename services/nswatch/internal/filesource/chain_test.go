package filesource

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestPlaces(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(name string) string { return filepath.Join(root, name) }
	for _, dir := range []string{"plain", "volume/..one", "far/deep/down"} {
		must(t, os.MkdirAll(at(dir), 0o700))
	}
	write(t, at("plain/f"), base)
	write(t, at("volume/..one/f"), base)
	write(t, at("far/deep/down/f"), base)
	for link, target := range map[string]string{
		"volume/..data":  "..one",
		"volume/f":       "..data/f",
		"to-volume":      "volume",
		"up":             "far/deep/../../plain/f",
		"absolute":       at("far/deep/down/f"),
		"far/deep/again": at("volume/f"),
		"loop":           "loop",
		"dangling":       "far/nothing/f",
	} {
		must(t, os.Symlink(target, at(link)))
	}
	for _, c := range []struct {
		name, path string
		want       []string
	}{
		{"plain", "plain/f", []string{"plain"}},
		{"ConfigMap", "volume/f", []string{"volume", "volume/..one"}},
		{"linked directory", "to-volume/f", []string{"", "volume", "volume/..one"}},
		{"dots", "up", []string{"", "plain"}},
		{"absolute link", "absolute", []string{"", "far/deep/down"}},
		{"link to a link", "far/deep/again", []string{"far/deep", "volume", "volume/..one"}},
		{"loop", "loop", []string{""}},
		{"dangling", "dangling", []string{"", "far"}},
		{"missing", "plain/g", []string{"plain"}},
		{"missing parents", "far/x/y/z", []string{"far"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want, got []string
			for _, name := range c.want {
				want = append(want, at(name))
			}
			for _, p := range places(at(c.path)) {
				got = append(got, p.path)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
