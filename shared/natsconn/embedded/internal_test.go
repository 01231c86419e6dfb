package embedded

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// TestServerSettings looks at what only the server knows, and at what it does when it gives up.
func TestServerSettings(t *testing.T) {
	s, err := New(Config{StoreDir: filepath.Join(t.TempDir(), "nats"), Listen: "127.0.0.1:0", MaxStore: 64 << 20}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Listening()
	store := s.nats.JetStreamConfig()
	if !store.SyncAlways || store.MaxStore != 64<<20 || store.MaxMemory != maxMemory {
		t.Errorf("store %+v, want sync always and the limits", store)
	}
	if err := s.nats.DisableJetStream(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(ctx); err == nil || !strings.Contains(err.Error(), "turned JetStream off") {
		t.Errorf("ready without JetStream: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestFatalEndsRun(t *testing.T) {
	b := &bridge{log: zerolog.Nop(), fatal: make(chan error, 1)}
	b.Fatalf("first %d", 1)
	b.Fatalf("second")
	if err := <-b.fatal; err.Error() != "first 1" {
		t.Errorf("got %v, want the first error", err)
	}
}
