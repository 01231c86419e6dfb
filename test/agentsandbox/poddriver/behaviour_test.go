package poddriver

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseBehaviour(t *testing.T) {
	tests := map[string]Behaviour{
		"ready":                 {},
		"ready=2s":              {ReadyAfter: 2 * time.Second},
		"slow-start":            {StartAfter: 3 * time.Second},
		"slow-start=1m":         {StartAfter: time.Minute},
		"not-ready":             {NeverReady: true},
		"flap=100ms":            {FlapEvery: 100 * time.Millisecond},
		"image-pull-backoff":    {Waiting: "ImagePullBackOff"},
		"image-pull-backoff=1s": {StartAfter: time.Second, Waiting: "ImagePullBackOff"},
		"crash-loop":            {CrashLoop: true},
		"succeed":               {End: &End{}},
		"fail=1s":               {End: &End{After: time.Second, ExitCode: 1}},
		"evict":                 {End: &End{Evicted: true}},
		"slow-stop=5s":          {StopAfter: 5 * time.Second},
		"ignore-deletion":       {IgnoreDeletion: true},
	}
	for text, want := range tests {
		got, err := ParseBehaviour(text)
		if err != nil {
			t.Errorf("ParseBehaviour(%q): %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParseBehaviour(%q) (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"":          "use one of crash-loop, evict,",
		"explode":   "unknown",
		"fail=soon": "not a duration",
		"fail=-1s":  "not a duration",
		"fail=":     "not a duration",
	} {
		if _, err := ParseBehaviour(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseBehaviour(%q) = %v, want an error with %q", text, err, want)
		}
	}
}

func TestNewWantsAnOwner(t *testing.T) {
	if _, err := New(Config{}, nil); err == nil || !strings.Contains(err.Error(), "Owns") {
		t.Errorf("New without Owns = %v, want an error that names it", err)
	}
}
