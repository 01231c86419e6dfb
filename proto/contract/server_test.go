package contract

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// instant has a fraction, which the older encodings cut.
var instant = time.Date(2026, 8, 21, 10, 30, 15, 250_000_000, time.UTC)

// driver answers GetSandbox with what ValidateSandboxCreate was last given.
type driver struct {
	computev1.UnimplementedComputeDriverServer
	mu   sync.Mutex
	last *computev1.DriverSandbox
}

func (d *driver) ValidateSandboxCreate(_ context.Context, req *computev1.ValidateSandboxCreateRequest) (*computev1.ValidateSandboxCreateResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = req.GetSandbox()
	return &computev1.ValidateSandboxCreateResponse{}, nil
}

func (d *driver) GetSandbox(_ context.Context, req *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last.GetId() != req.GetSandboxId() {
		return nil, status.Error(codes.NotFound, "sandbox not found")
	}
	return &computev1.GetSandboxResponse{Sandbox: d.last}, nil
}

func (d *driver) ListSandboxes(context.Context, *computev1.ListSandboxesRequest) (*computev1.ListSandboxesResponse, error) {
	return &computev1.ListSandboxesResponse{Sandboxes: []*computev1.DriverSandbox{ready("s1")}}, nil
}

func (d *driver) WatchSandboxes(_ *computev1.WatchSandboxesRequest, stream grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
	for _, event := range watched() {
		if err := stream.Send(event); err != nil {
			return err
		}
	}
	return nil
}

func ready(id string) *computev1.DriverSandbox {
	return &computev1.DriverSandbox{Id: id, Status: &computev1.DriverSandboxStatus{
		Name:       "box",
		Conditions: []*computev1.DriverCondition{{Type: "Ready", Status: "True", TransitionTime: timestamppb.New(instant)}},
	}}
}

func watched() []*computev1.WatchSandboxesEvent {
	return []*computev1.WatchSandboxesEvent{
		{Payload: &computev1.WatchSandboxesEvent_Sandbox{Sandbox: &computev1.WatchSandboxesSandboxEvent{Sandbox: ready("s1")}}},
		{Payload: &computev1.WatchSandboxesEvent_PlatformEvent{PlatformEvent: &computev1.WatchSandboxesPlatformEvent{
			SandboxId: "s1",
			Event:     &computev1.DriverPlatformEvent{Source: "kubelet", Reason: "Pulled", EventTime: timestamppb.New(instant)},
		}}},
		{Payload: &computev1.WatchSandboxesEvent_Deleted{Deleted: &computev1.WatchSandboxesDeletedEvent{SandboxId: "s1"}}},
	}
}

// serve runs srv on a Unix socket and returns a connection to it.
func serve(t *testing.T, srv computev1.ComputeDriverServer, serverOpts []grpc.ServerOption, opts ...Option) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(serverOpts...)
	if err := Register(server, srv, opts...); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "driver.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	cc, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cc.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return cc
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func under(t *testing.T, cc grpc.ClientConnInterface, p Prefix) computev1.ComputeDriverClient {
	t.Helper()
	renamed, err := NewConn(cc, p)
	if err != nil {
		t.Fatal(err)
	}
	return computev1.NewComputeDriverClient(renamed)
}

// receiveAll reads a watch to its end.
func receiveAll(t *testing.T, client computev1.ComputeDriverClient) ([]*computev1.WatchSandboxesEvent, error) {
	t.Helper()
	stream, err := client.WatchSandboxes(deadline(t), &computev1.WatchSandboxesRequest{})
	if err != nil {
		return nil, err
	}
	var events []*computev1.WatchSandboxesEvent
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, event)
	}
}

func TestBothPrefixesReachTheSameDriver(t *testing.T) {
	cc := serve(t, &driver{}, nil, WithPrefixes(OpenShell, Ryno))
	create := &computev1.ValidateSandboxCreateRequest{Sandbox: ready("s1")}
	if _, err := under(t, cc, OpenShell).ValidateSandboxCreate(deadline(t), create); err != nil {
		t.Fatal(err)
	}
	for _, p := range Prefixes() {
		t.Run(string(p), func(t *testing.T) {
			got, err := under(t, cc, p).GetSandbox(deadline(t), &computev1.GetSandboxRequest{SandboxId: "s1"})
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got.GetSandbox(), create.GetSandbox()) {
				t.Errorf("sandbox = %v", got.GetSandbox())
			}
			events, err := receiveAll(t, under(t, cc, p))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(events, watched(), func(a, b *computev1.WatchSandboxesEvent) bool { return proto.Equal(a, b) }) {
				t.Errorf("events = %v", events)
			}
			_, err = under(t, cc, p).StopSandbox(deadline(t), &computev1.StopSandboxRequest{})
			if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "StopSandbox") {
				t.Errorf("a method that the driver does not have gives %v", err)
			}
		})
	}
}

func TestOnlyTheAskedPrefixIsServed(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   []Option
		served Prefix
		absent Prefix
	}{
		{"default", nil, OpenShell, Ryno},
		{"renamed alone", []Option{WithPrefixes(Ryno)}, Ryno, OpenShell},
	} {
		t.Run(c.name, func(t *testing.T) {
			cc := serve(t, &driver{}, nil, c.opts...)
			if _, err := under(t, cc, c.served).ListSandboxes(deadline(t), &computev1.ListSandboxesRequest{}); err != nil {
				t.Errorf("%s: %v", c.served, err)
			}
			_, err := under(t, cc, c.absent).ListSandboxes(deadline(t), &computev1.ListSandboxesRequest{})
			if status.Code(err) != codes.Unimplemented {
				t.Errorf("%s: %v, want Unimplemented", c.absent, err)
			}
			if _, err := receiveAll(t, under(t, cc, c.absent)); status.Code(err) != codes.Unimplemented {
				t.Errorf("%s: watch gives %v, want Unimplemented", c.absent, err)
			}
		})
	}
}

func TestInterceptorsSeeTheCalledPath(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	record := func(path string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, path)
	}
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		record(info.FullMethod)
		return next(ctx, req)
	}
	stream := func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		record(info.FullMethod)
		return next(srv, s)
	}
	cc := serve(t, &driver{}, []grpc.ServerOption{grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream)},
		WithPrefixes(OpenShell, Ryno), WithLegacyGateways())
	var want []string
	for _, p := range Prefixes() {
		if _, err := under(t, cc, p).ListSandboxes(deadline(t), &computev1.ListSandboxesRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := receiveAll(t, under(t, cc, p)); err != nil {
			t.Fatal(err)
		}
		if err := askRequirements(t, cc, p, new(computev1.GetGatewayListenerRequirementsResponse)); err != nil {
			t.Fatal(err)
		}
		service := "/" + string(p) + ".compute.v1.ComputeDriver/"
		want = append(want, service+"ListSandboxes", service+"WatchSandboxes", service+"GetGatewayListenerRequirements")
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(seen, want) {
		t.Errorf("interceptors saw %q\nwant %q", seen, want)
	}
	for i, path := range want {
		if got := Canonical(path); got != want[i%3] {
			t.Errorf("Canonical(%q) = %q, want %q", path, got, want[i%3])
		}
	}
}

// A peer of a later release sends fields that this code does not know: they change nothing, and they
// are still there when the message is passed on.
func TestFieldsOfANewerPeer(t *testing.T) {
	cc := serve(t, &driver{}, nil, WithPrefixes(OpenShell, Ryno))
	later := protowire.AppendString(protowire.AppendTag(nil, 900, protowire.BytesType), "from the future")
	sent := ready("s1")
	sent.ProtoReflect().SetUnknown(later)
	sent.GetStatus().ProtoReflect().SetUnknown(later)
	req := &computev1.ValidateSandboxCreateRequest{Sandbox: sent}
	req.ProtoReflect().SetUnknown(later)
	for _, p := range Prefixes() {
		if _, err := under(t, cc, p).ValidateSandboxCreate(deadline(t), req); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		got, err := under(t, cc, p).GetSandbox(deadline(t), &computev1.GetSandboxRequest{SandboxId: "s1"})
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		if !proto.Equal(got.GetSandbox(), sent) {
			t.Errorf("%s: %v\nwant %v", p, got.GetSandbox(), sent)
		}
	}
}
