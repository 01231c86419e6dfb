package embedded_test

import (
	"context"
	"net"
	"testing"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/embedded"
)

// TestClaim takes a store without running a server on it, and gives it back.
func TestClaim(t *testing.T) {
	cfg := valid(t)
	fresh := func() *embedded.Server {
		t.Helper()
		server, err := embedded.New(cfg, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	first, second := fresh(), fresh()
	for range 2 {
		if err := first.Claim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := second.Claim(t.Context()); err == nil {
		t.Fatal("two servers have the store")
	}
	second.Release() // has nothing to release
	if err := second.Claim(t.Context()); err == nil {
		t.Fatal("releasing nothing freed the store")
	}
	first.Release()
	first.Release()

	// A failed claim of the address gives the store back.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free := cfg.Listen
	cfg.Listen = taken.Addr().String()
	if err := fresh().Claim(t.Context()); err == nil {
		t.Fatal("a taken address was claimed")
	}
	cfg.Listen = free
	if err := second.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- second.Run(ctx) }()
	select {
	case <-second.Listening():
	case err := <-done:
		t.Fatalf("run: %v", err)
	}
	second.Release() // the running server keeps its store
	if err := first.Claim(t.Context()); err == nil {
		t.Error("the store of a running server was claimed")
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	if err := first.Claim(t.Context()); err != nil {
		t.Errorf("after the stop: %v", err)
	}
	first.Release()
}
