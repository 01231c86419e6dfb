package observe

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// driver serves the watch as lifecycle does.
type driver struct {
	computev1.UnimplementedComputeDriverServer
	observer *Observer
	joined   chan struct{}
	ended    chan error
}

func (d *driver) WatchSandboxes(_ *computev1.WatchSandboxesRequest, stream grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
	err := d.observer.Watch(stream.Context(), func(e *computev1.WatchSandboxesEvent) error {
		select {
		case d.joined <- struct{}{}:
		default:
		}
		return stream.Send(e)
	})
	d.ended <- err
	return status.Error(codes.Unavailable, err.Error())
}

// TestSlowGatewayIsReset is bug corpus G08 on a real connection: a gateway that does not read is blocked by flow control, its stream
// ends with a code after which it opens another, and until then nothing is missing.
func TestSlowGatewayIsReset(t *testing.T) {
	s := newStage(t)
	s.start(t)
	d := &driver{observer: s.Observer, joined: make(chan struct{}, 1), ended: make(chan error, 1)}
	server, listener := grpc.NewServer(), bufconn.Listen(1<<20)
	computev1.RegisterComputeDriverServer(server, d)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///bufnet", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	must(t, err)
	defer func() {
		_ = conn.Close()
		server.Stop()
		<-served
		s.stop()
	}()
	stream, err := computev1.NewComputeDriverClient(conn).WatchSandboxes(t.Context(), &computev1.WatchSandboxesRequest{})
	must(t, err)
	<-d.joined

	text := strings.Repeat("x", 1024)
	sent := int32(0)
	for ended := error(nil); ended == nil; {
		select {
		case ended = <-d.ended:
			if !errors.Is(ended, ErrBehind) {
				t.Fatalf("the stream ended with %v", ended)
			}
		default:
			sent++
			e := eventItem("e", "u1-w", 20+uint64(sent), sent)
			e.Value.Message = text
			s.events.feed <- put(e)
		}
		if sent > 100_000 {
			t.Fatal("a caller that reads nothing is never behind")
		}
	}
	last := 0
	for {
		m, err := stream.Recv()
		if err != nil {
			if s := status.Convert(err); s.Code() != codes.Unavailable || s.Message() != ErrBehind.Error() {
				t.Errorf("the gateway is told %v", err)
			}
			break
		}
		if p := m.GetPlatformEvent(); p != nil {
			if last++; p.GetEvent().GetMetadata()["count"] != strconv.Itoa(last) {
				t.Fatalf("after %d events comes %s", last-1, said(m))
			}
		}
	}
	if last >= int(sent) {
		t.Errorf("%d of %d events", last, sent)
	}
}
