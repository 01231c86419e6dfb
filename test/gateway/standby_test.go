package gateway_test

import (
	"context"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

// TestStandby: beside a gateway that holds the lease, on the same records, one that does not serves calls and is told by the rows alone what comes
// of them: it opens no watch (contract 2.8).
func TestStandby(t *testing.T) {
	t.Parallel()
	s := begin(t)
	second, err := gateway.New(gateway.Config{Socket: s.driver.Socket(), Policy: policy(), Clock: s.clock, Log: zerolog.Nop(), Standby: true}, s.store)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- second.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-second.Ready()
	box, err := second.Create(s.ctx, wish("box"))
	if err != nil || box.RuntimeIdentity == "" {
		t.Fatalf("%+v, %v", box, err)
	}
	if _, err := s.g.Create(s.ctx, wish("box")); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the same name at the other: %v", err)
	}
	if err := s.backendReady(s.ctx, box.ID); err != nil { // seen by the one that watches
		t.Fatal(err)
	}
	s.supervise(box.ID).confirm()
	s.in(box.ID, phase.Ready)
	if err := second.Stop(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	s.is(box.ID, phase.Stopped)
	if err := second.Delete(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.g.AwaitRemoved(s.ctx, box.ID); err != nil {
		t.Error(err)
	}
	if n := s.driver.Watches(); n != 1 {
		t.Errorf("%d watches were opened, and one gateway has the lease", n)
	}
}
