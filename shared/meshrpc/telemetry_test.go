package meshrpc

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// A trace goes through: the server's span is of the caller's trace, under the client's
// span.
func TestTraceIsPassedOn(t *testing.T) {
	ca := meshtest.NewCA(t)
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	traced := func(d *Deps) { d.TracerProvider = provider }
	address := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth", traced).serve(t, onlyLifecycle(), &service{})
	client := join(t, configFor(meshtest.NewFiles(t, ca, "lifecycle")), "lifecycle", traced).client(t, Target{Daemon: "tokenauth", Address: address})
	ctx, root := provider.Tracer("test").Start(testContext(t), "root")
	_, err := client.EmptyCall(ctx, &grpc_testing.Empty{})
	must(t, err)
	root.End()
	eventually(t, "three spans end", func() bool { return len(spans.Ended()) == 3 })
	byKind := map[trace.SpanKind]sdktrace.ReadOnlySpan{}
	for _, s := range spans.Ended() {
		byKind[s.SpanKind()] = s
	}
	server, caller := byKind[trace.SpanKindServer], byKind[trace.SpanKindClient]
	if server == nil || caller == nil {
		t.Fatalf("spans: %v", spans.Ended())
	}
	if server.SpanContext().TraceID() != root.SpanContext().TraceID() || server.Parent().SpanID() != caller.SpanContext().SpanID() {
		t.Errorf("the server's span is of trace %s under %s", server.SpanContext().TraceID(), server.Parent().SpanID())
	}
}

// A daemon that records nothing still passes the context on.
func TestTraceIsPassedOnUnrecorded(t *testing.T) {
	var seen trace.SpanContext
	s := &service{empty: func(ctx context.Context) error { seen = trace.SpanContextFromContext(ctx); return nil }}
	address := join(t, plaintextConfig(), "tokenauth").serve(t, Policy{testService: {PlaintextCaller}}, s)
	client := join(t, plaintextConfig(), "lifecycle").client(t, Target{Daemon: "tokenauth", Address: address})
	given := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
	_, err := client.EmptyCall(trace.ContextWithSpanContext(testContext(t), given), &grpc_testing.Empty{})
	must(t, err)
	if seen.TraceID() != given.TraceID() {
		t.Errorf("the handler sees trace %s", seen.TraceID())
	}
}

func TestMetrics(t *testing.T) {
	ca := meshtest.NewCA(t)
	m := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth")
	address := m.serve(t, onlyLifecycle(), &service{})
	conn := stranger(t, address, credentials.NewTLS(insecureTLS(nil, ca.Issue(t, "lifecycle").TLS(t))))
	must(t, callEmpty(t, conn))
	_ = conn.Invoke(testContext(t), "/any.Thing/"+strings.Repeat("x", 100), &grpc_testing.Empty{}, &grpc_testing.Empty{})
	callAs(t, address, ca.Issue(t, "somebody"))
	callAs(t, address, ca.Issue(t, "x", meshtest.URIs()))
	for labels, want := range map[[3]string]float64{
		{emptyCall, "OK", "lifecycle"}:               1,
		{"unknown", "PermissionDenied", "lifecycle"}: 1,
		{emptyCall, "PermissionDenied", "other"}:     1,
		{emptyCall, "Unauthenticated", "other"}:      1,
	} {
		eventually(t, strings.Join(labels[:], " "), func() bool {
			return testutil.ToFloat64(m.metrics.handled.WithLabelValues(labels[:]...)) == want
		})
	}
	lint, err := testutil.GatherAndLint(m.registry)
	if err != nil || len(lint) > 0 {
		t.Errorf("metric names: %v, %v", lint, err)
	}
	families, err := m.registry.Gather()
	must(t, err)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "portcullis_mesh_") {
			t.Errorf("metric %s", f.GetName())
		}
	}
}
