package relay_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/relay"
)

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	spanID   = "b7ad6b7169203331"
	parent   = "00-" + traceID + "-" + spanID + "-01"
	vendor   = "vendor=1"
	relayEnd = "relay's end"
)

// seen is the trace metadata that the driver gets for what a gateway sent.
func traced(t *testing.T, tracing trace.TracerProvider) (parents, states []string) {
	t.Helper()
	site := raiseTraced(t, &driver{get: func(ctx context.Context, _ *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		parents, states = md.Get("traceparent"), md.Get("tracestate")
		return new(computev1.GetSandboxResponse), nil
	}}, tracing)
	ctx := metadata.AppendToOutgoingContext(bounded(t), "traceparent", parent, "tracestate", vendor)
	if _, err := site.client(t, contract.OpenShell).GetSandbox(ctx, &computev1.GetSandboxRequest{}); err != nil {
		t.Fatal(err)
	}
	return parents, states
}

// Without tracing, the trace metadata is passed on as all other is.
func TestTraceMetadataComesThrough(t *testing.T) {
	if parents, states := traced(t, nil); strings.Join(parents, " ") != parent || strings.Join(states, " ") != vendor {
		t.Errorf("the driver saw traceparent %q, tracestate %q", parents, states)
	}
}

// With tracing, the gateway's trace has the relay's spans, and lifecycle's below them: one chain.
func TestTraceIsOne(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	parents, states := traced(t, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	if len(parents) != 1 || !strings.HasPrefix(parents[0], "00-"+traceID+"-") || parents[0] == parent || strings.Join(states, " ") != vendor {
		t.Errorf("the driver saw traceparent %q, tracestate %q", parents, states)
	}
	for ctx := bounded(t); len(spans.Ended()) < 3; {
		if ctx.Err() != nil {
			t.Fatalf("%d spans have ended", len(spans.Ended()))
		}
		time.Sleep(time.Millisecond)
	}
	below, chain := map[string]sdktrace.ReadOnlySpan{}, []trace.SpanKind{}
	for _, s := range spans.Ended() {
		if s.SpanContext().TraceID().String() != traceID {
			t.Errorf("%s is of trace %s", s.Name(), s.SpanContext().TraceID())
		}
		below[s.Parent().SpanID().String()] = s
	}
	for at := below[spanID]; at != nil; at = below[at.SpanContext().SpanID().String()] {
		chain = append(chain, at.SpanKind())
	}
	if len(chain) != 3 || chain[0] != trace.SpanKindServer || chain[1] != trace.SpanKindClient || chain[2] != trace.SpanKindServer {
		t.Errorf("below the gateway's span are %v", chain)
	}
}

// What lifecycle's own socket lets by, the relay does.
func TestLongAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int
		code  codes.Code
	}{"9 MiB": {9 << 20, codes.OK}, "too long for the socket too": {relay.MaxAnswerBytes, codes.ResourceExhausted}} {
		t.Run(name, func(t *testing.T) {
			long := strings.Repeat("x", c.bytes)
			site := raise(t, &driver{get: func(context.Context, *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
				return &computev1.GetSandboxResponse{Sandbox: &computev1.DriverSandbox{Name: long}}, nil
			}})
			got, err := site.client(t, contract.OpenShell).GetSandbox(bounded(t), &computev1.GetSandboxRequest{}, grpc.MaxCallRecvMsgSize(2*relay.MaxAnswerBytes))
			if status.Code(err) != c.code || err == nil && got.GetSandbox().GetName() != long {
				t.Errorf("%d bytes, error %v", len(got.GetSandbox().GetName()), err)
			}
		})
	}
}

// A request that lifecycle cannot read is lifecycle's to refuse: the relay reads none.
func TestMalformedRequestIsLifecyclesToRefuse(t *testing.T) {
	site := raise(t, new(driver))
	err := site.conn.Invoke(bounded(t), contract.Ryno.FullMethod("GetSandbox"), protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("hidden\xff")),
		new(computev1.GetSandboxResponse), grpc.ForceCodecV2(wire{}))
	if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "sandbox_id: is not valid UTF-8" {
		t.Errorf("error %v", err)
	}
	if n := site.driver.calls.Load(); n != 0 {
		t.Errorf("the driver got %d calls", n)
	}
}

// A gateway that stops reading must stop the driver, not fill the relay.
func TestSlowReaderSlowsTheDriver(t *testing.T) {
	// All windows between the two ends are far below this.
	const most, size = 4000, 64 << 10
	var sent atomic.Int64
	stopped := make(chan int64)
	site := raise(t, &driver{watch: func(s grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
		big := &computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_Deleted{
			Deleted: &computev1.WatchSandboxesDeletedEvent{SandboxId: strings.Repeat("x", size)},
		}}
		for range most {
			if err := s.Send(big); err != nil {
				return err
			}
			sent.Add(1)
		}
		<-s.Context().Done()
		return s.Context().Err()
	}})
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	stream, err := site.client(t, contract.OpenShell).WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	go func() { stopped <- stillness(ctx, &sent) }()
	if n := within(t, stopped); n == most {
		t.Errorf("the driver sent all of its %d messages to a gateway that had read one", n)
	}
	cancel()
	if err := within(t, site.driver.ended); status.Code(err) != codes.Canceled {
		t.Errorf("the driver ended with %v", err)
	}
}

// stillness waits until a count has not changed for half a second, and is what it then is. A machine that is so slow that a sender which could
// go on does not, makes a relay without this defect look well; never the other way round.
func stillness(ctx context.Context, count *atomic.Int64) int64 {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last, same := count.Load(), 0
	for same < 50 && ctx.Err() == nil {
		<-tick.C
		if now := count.Load(); now != last {
			last, same = now, 0
		} else {
			same++
		}
	}
	return last
}
