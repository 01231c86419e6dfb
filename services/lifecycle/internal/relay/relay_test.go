package relay_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/relay"
)

func TestAnswerComesThrough(t *testing.T) {
	for _, prefix := range contract.Prefixes() {
		t.Run(string(prefix), func(t *testing.T) {
			site := raise(t, &driver{get: func(_ context.Context, r *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
				return &computev1.GetSandboxResponse{Sandbox: &computev1.DriverSandbox{Id: r.GetSandboxId()}}, nil
			}})
			got, err := site.client(t, prefix).GetSandbox(bounded(t), &computev1.GetSandboxRequest{SandboxId: "x"})
			if err != nil || got.GetSandbox().GetId() != "x" {
				t.Errorf("answer %v, error %v", got, err)
			}
		})
	}
}

// A field that neither end knows today is what the next release adds.
func TestUnknownFieldsComeThrough(t *testing.T) {
	var seen []byte
	site := raise(t, &driver{get: func(_ context.Context, r *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
		seen = r.ProtoReflect().GetUnknown()
		answer := new(computev1.GetSandboxResponse)
		answer.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 901, protowire.BytesType), "answered"))
		return answer, nil
	}})
	request := new(computev1.GetSandboxRequest)
	sent := protowire.AppendString(protowire.AppendTag(nil, 900, protowire.BytesType), "asked")
	request.ProtoReflect().SetUnknown(sent)
	got, err := site.client(t, contract.OpenShell).GetSandbox(bounded(t), request)
	if err != nil {
		t.Fatal(err)
	}
	if string(seen) != string(sent) || !strings.Contains(string(got.ProtoReflect().GetUnknown()), "answered") {
		t.Errorf("the driver saw %q, the gateway %q", seen, got.ProtoReflect().GetUnknown())
	}
}

func TestErrorComesThroughWithItsDetails(t *testing.T) {
	want, err := status.New(codes.FailedPrecondition, "not on the list").
		WithDetails(&errdetails.ErrorInfo{Reason: "NAMESPACE_NOT_ALLOWED", Domain: "portcullis"})
	if err != nil {
		t.Fatal(err)
	}
	site := raise(t, &driver{get: func(context.Context, *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
		return nil, want.Err()
	}})
	_, err = site.client(t, contract.OpenShell).GetSandbox(bounded(t), &computev1.GetSandboxRequest{})
	if got := status.Convert(err); !proto.Equal(got.Proto(), want.Proto()) {
		t.Errorf("error %v with %v, want %v with %v", err, got.Details(), want.Err(), want.Details())
	}
}

func TestMetadataComesThrough(t *testing.T) {
	var asked metadata.MD
	site := raise(t, &driver{get: func(ctx context.Context, _ *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
		asked, _ = metadata.FromIncomingContext(ctx)
		return new(computev1.GetSandboxResponse), errors.Join(
			grpc.SetHeader(ctx, metadata.Pairs("x-head", "h")), grpc.SetTrailer(ctx, metadata.Pairs("x-tail-bin", "\x00\xff")))
	}})
	ctx := metadata.AppendToOutgoingContext(bounded(t), "x-asked", "1", "x-asked", "2")
	var header, trailer metadata.MD
	_, err := site.client(t, contract.OpenShell).GetSandbox(ctx, &computev1.GetSandboxRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(asked.Get("x-asked"), ","); got != "1,2" {
		t.Errorf("the driver saw x-asked %q", got)
	}
	if got := header.Get("x-head"); len(got) != 1 || got[0] != "h" {
		t.Errorf("header %v", header)
	}
	if got := trailer.Get("x-tail-bin"); len(got) != 1 || got[0] != "\x00\xff" {
		t.Errorf("trailer %v", trailer)
	}
}

func TestDeadlineComesThrough(t *testing.T) {
	deadlines := make(chan time.Time, 1)
	site := raise(t, &driver{get: func(ctx context.Context, _ *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
		deadline, _ := ctx.Deadline()
		deadlines <- deadline
		return new(computev1.GetSandboxResponse), nil
	}})
	asked := time.Now().Add(17 * time.Second)
	ctx, cancel := context.WithDeadline(t.Context(), asked)
	defer cancel()
	if _, err := site.client(t, contract.OpenShell).GetSandbox(ctx, &computev1.GetSandboxRequest{}); err != nil {
		t.Fatal(err)
	}
	// The wire has the time left, not the instant: on one machine it can only have become later by what the way took.
	if got := <-deadlines; got.Before(asked.Add(-time.Second)) || got.After(asked.Add(10*time.Second)) {
		t.Errorf("the driver's deadline is %v after the caller's", got.Sub(asked))
	}
}

func TestCancellationComesThrough(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	site := raise(t, &driver{get: func(ctx context.Context, _ *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(bounded(t))
	go func() { <-began; cancel() }()
	_, err := site.client(t, contract.OpenShell).GetSandbox(ctx, &computev1.GetSandboxRequest{})
	if status.Code(err) != codes.Canceled {
		t.Errorf("error %v", err)
	}
	if got := within(t, ended); !errors.Is(got, context.Canceled) {
		t.Errorf("the driver's context ended with %v", got)
	}
}

func TestStreamComesThroughInOrder(t *testing.T) {
	const messages = 300
	site := raise(t, &driver{watch: func(s grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
		for i := range messages {
			if err := s.Send(deleted(i)); err != nil {
				return err
			}
		}
		return status.Error(codes.Unavailable, "enough")
	}})
	stream, err := site.client(t, contract.OpenShell).WatchSandboxes(bounded(t), &computev1.WatchSandboxesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		got, err := stream.Recv()
		if err != nil || !proto.Equal(got, deleted(i)) {
			t.Fatalf("message %d is %v, error %v", i, got, err)
		}
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "enough" {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestStreamThatEndsWellEndsWell(t *testing.T) {
	site := raise(t, &driver{watch: func(grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error { return nil }})
	stream, err := site.client(t, contract.OpenShell).WatchSandboxes(bounded(t), &computev1.WatchSandboxesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestRelayRefuses(t *testing.T) {
	site := raise(t, new(driver))
	t.Run("a service that is not the driver's", func(t *testing.T) {
		err := site.conn.Invoke(bounded(t), "/portcullis.tokenauth.v1.TokenAuthService/Authenticate", new(computev1.GetSandboxRequest), new(computev1.GetSandboxResponse))
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a second request", func(t *testing.T) {
		stream, err := site.conn.NewStream(bounded(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, contract.OpenShell.FullMethod("GetSandbox"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := stream.SendMsg(new(computev1.GetSandboxRequest)); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.RecvMsg(new(computev1.GetSandboxResponse)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("error %v", err)
		}
	})
	t.Run("no request", func(t *testing.T) {
		stream, err := site.conn.NewStream(bounded(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, contract.OpenShell.FullMethod("GetSandbox"))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(new(computev1.GetSandboxResponse)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("error %v", err)
		}
	})
	if n := site.driver.calls.Load(); n != 0 {
		t.Errorf("the driver got %d calls", n)
	}
}

// A method that this release does not know is lifecycle's to refuse.
func TestUnknownMethodIsPassedOn(t *testing.T) {
	site := raise(t, new(driver))
	err := site.conn.Invoke(bounded(t), contract.OpenShell.FullMethod("NextYear"), new(computev1.GetSandboxRequest), new(computev1.GetSandboxResponse))
	if status.Code(err) != codes.Unimplemented || strings.Contains(status.Convert(err).Message(), "relay") {
		t.Errorf("error %v", err)
	}
}

// The relay's own services are no business of its codec.
func TestServiceBesideTheRelay(t *testing.T) {
	site := raise(t, new(driver))
	got, err := grpc_health_v1.NewHealthClient(site.conn).Check(bounded(t), new(grpc_health_v1.HealthCheckRequest))
	if err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("answer %v, error %v", got, err)
	}
}

func TestLifecycleIsAwayAndComesBack(t *testing.T) {
	site := raise(t, &driver{get: func(context.Context, *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
		return new(computev1.GetSandboxResponse), nil
	}})
	client := site.client(t, contract.OpenShell)
	site.stopDriver()
	_, err := client.GetSandbox(bounded(t), &computev1.GetSandboxRequest{})
	if status.Code(err) != codes.Unavailable || !strings.Contains(status.Convert(err).Message(), site.target) {
		t.Errorf("while lifecycle is away: %v", err)
	}
	site.startDriver(t)
	ctx := bounded(t)
	for {
		_, err := client.GetSandbox(ctx, &computev1.GetSandboxRequest{})
		if err == nil {
			return
		}
		if status.Code(err) != codes.Unavailable || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestUnary(t *testing.T) {
	for method, want := range map[string]bool{
		contract.OpenShell.FullMethod("CreateSandbox"):  true,
		contract.Ryno.FullMethod("StopSandbox"):         true,
		contract.OpenShell.FullMethod("WatchSandboxes"): false,
		contract.OpenShell.FullMethod("NextYear"):       false,
		"/another.Service/CreateSandbox":                false,
		"":                                              false,
	} {
		if got := relay.Unary(method); got != want {
			t.Errorf("%q: %t", method, got)
		}
	}
}
