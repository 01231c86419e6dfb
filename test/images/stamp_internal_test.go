package images

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestStamps(t *testing.T) {
	t.Parallel()
	valid := fixedStamp
	if err := valid.validate(); err != nil {
		t.Fatalf("the valid one is refused: %v", err)
	}
	for name, c := range map[string]struct {
		breakIt func(*Stamp)
		field   string
	}{
		"no version":             {func(s *Stamp) { s.Version = "" }, "version"},
		"a flag in the version":  {func(s *Stamp) { s.Version = "v1 -X main.x=y" }, "version"},
		"a quote in the version": {func(s *Stamp) { s.Version = `v1"` }, "version"},
		"a long version":         {func(s *Stamp) { s.Version = strings.Repeat("v", maxStamp+1) }, "version"},
		"no commit":              {func(s *Stamp) { s.Commit = "" }, "commit"},
		"a shell in the commit":  {func(s *Stamp) { s.Commit = "$(id)" }, "commit"},
		"no time":                {func(s *Stamp) { s.Time = time.Time{} }, "time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valid
			c.breakIt(&s)
			if err := s.validate(); err == nil || !strings.Contains(err.Error(), c.field) {
				t.Errorf("%v, want an error about the %s", err, c.field)
			}
		})
	}
}

// What is wrong is said before anything is compiled.
func TestBadOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breakIt func(*Options)
		says    string
	}{
		"unknown image": {func(o *Options) { o.Names = []string{"nswatch", "gateway"} }, "gateway"},
		"no platform":   {func(o *Options) { o.Platforms = nil }, "platform"},
		"bad stamp":     {func(o *Options) { o.Stamp = Stamp{} }, "commit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Root: "/nonexistent", Into: t.TempDir(), Stamp: fixedStamp, Platforms: Platforms()}
			c.breakIt(&o)
			if _, err := Build(context.Background(), o); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "compile") {
				t.Errorf("%v, want one that says %q", err, c.says)
			}
		})
	}
}

// A reference is one that containerd keeps as it is: a shorter one would not be found by a Pod.
func TestReferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ recipe, repository, want string }{
		"a daemon":                   {"nswatch", DefaultRepository, "docker.io/portcullis/nswatch:v1"},
		"a daemon, said shortly":     {"nswatch", "portcullis", "docker.io/portcullis/nswatch:v1"},
		"a daemon in Docker's words": {"nswatch", "index.docker.io/portcullis", "docker.io/portcullis/nswatch:v1"},
		"a daemon in a registry":     {"nswatch", "registry.example/team", "registry.example/team/nswatch:v1"},
		"NATS":                       {NATS, DefaultRepository, "docker.io/library/nats:v1"},
		"NATS beside others' images": {NATS, "registry.example/team", "docker.io/library/nats:v1"},
	} {
		chosen, unknown := choose([]string{c.recipe})
		if unknown != "" || len(chosen) != 1 {
			t.Fatal(chosen, unknown)
		}
		if got, err := chosen[0].reference(c.repository, "v1"); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
	if got, err := daemons()[0].reference("registry.example/Team", "v1"); err == nil || !strings.Contains(err.Error(), "registry.example/Team") {
		t.Errorf("an impossible name gives %q, %v", got, err)
	}
}
