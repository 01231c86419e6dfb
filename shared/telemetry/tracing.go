package telemetry

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// Limits of what is kept for the export, and how long it waits for company. They are the SDK's own defaults.
const (
	maxQueue     = 2048 // spans
	maxBatch     = 512  // spans
	exportDelay  = 5 * time.Second
	maxSpanItems = 128     // attributes, events and links each
	maxValue     = 4 << 10 // bytes of one attribute
)

// Tracing is the tracer provider of a daemon with its export.
//
// It is not installed in OpenTelemetry's globals: hand Provider and Propagator to
// what should trace, as otelgrpc.WithTracerProvider and WithPropagators do.
type Tracing struct {
	cfg      Config
	endpoint endpoint
	creds    credentials.TransportCredentials
	resource *resourcepb.Resource
	log      zerolog.Logger
	sdk      *sdktrace.TracerProvider // nil when nothing is exported
	attached chan struct{}            // closed when spans reach the export
}

// NewTracing prepares tracing for a validated cfg and starts nothing. Spans that end
// while Run runs are exported, others are dropped. With no endpoint the provider records nothing and
// passes the caller's trace context on.
//
// It fails when the endpoint is malformed or the CA file cannot be read or is not
// sound from its first to its last certificate. A collector that cannot be reached is not an error: Run logs it
// once when it begins and once when it ends.
//
// No OTEL_ environment variable changes what is recorded, nor where it goes and with
// what. The OpenTelemetry libraries look at some of them all the same and report
// those that are malformed: see [OTelLog].
func NewTracing(cfg Config, daemon string, build Build, log zerolog.Logger) (*Tracing, error) {
	to, err := parseEndpoint(cfg.OTLPEndpoint)
	if err != nil {
		return nil, fmt.Errorf("otlp_endpoint %w", err)
	}
	t := &Tracing{cfg: cfg, endpoint: to, log: log, attached: make(chan struct{})}
	if to.target == "" {
		return t, nil
	}
	if t.creds, err = transport(to, cfg.OTLPCAFile); err != nil {
		return nil, err
	}
	// Names of the OpenTelemetry semantic conventions for resources.
	t.resource = &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
		text("service.namespace", Namespace),
		text("service.name", Namespace+"-"+daemon),
		text("service.version", build.Version),
	}}
	// What an option sets here, no variable does.
	t.sdk = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.TraceSampleRatio))),
		sdktrace.WithResource(resource.Empty()), // the export states its own
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: maxValue, AttributeCountLimit: maxSpanItems, EventCountLimit: maxSpanItems,
			LinkCountLimit: maxSpanItems, AttributePerEventCountLimit: maxSpanItems, AttributePerLinkCountLimit: maxSpanItems,
		}),
	)
	return t, nil
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

func transport(to endpoint, caFile string) (credentials.TransportCredentials, error) {
	if !to.tls {
		return insecure.NewCredentials(), nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pool, err := pemfile.File{Key: "portcullis.telemetry.otlp_ca_file", Path: caFile}.Pool()
		if err != nil {
			return nil, err
		}
		settings.RootCAs = pool
	}
	return credentials.NewTLS(settings), nil
}

// Provider returns the tracer provider, never nil.
func (t *Tracing) Provider() trace.TracerProvider {
	if t.sdk == nil {
		return noop.NewTracerProvider()
	}
	return t.sdk
}

// Propagator returns the W3C Trace Context propagator (traceparent, tracestate).
// Baggage is left out: it carries what any caller likes through all daemons.
func (*Tracing) Propagator() propagation.TextMapPropagator { return propagation.TraceContext{} }

// Run exports spans until ctx is cancelled, then exports what is left for at most
// OTLPShutdownTimeout and drops the rest. All goroutines of the export have ended
// when it returns. The error is nil except when the export cannot be set up: spans
// lost to an absent collector must not turn a requested stop into a failure.
//
// Run it once, and stop it after everything that makes spans.
func (t *Tracing) Run(ctx context.Context) error {
	if t.sdk == nil {
		<-ctx.Done()
		return nil
	}
	// No proxy: grpc would take one from the environment and print its address, password and all, when it is malformed.
	conn, err := grpc.NewClient(t.endpoint.target, grpc.WithTransportCredentials(t.creds), grpc.WithNoProxy(),
		grpc.WithDefaultServiceConfig(retryPolicy), grpc.WithDisableServiceConfig())
	if err != nil {
		return fmt.Errorf("set up the export of traces to %s: %w", t.endpoint.target, err)
	}
	defer func() { _ = conn.Close() }() // nothing is in flight any more

	lifetime := context.WithoutCancel(ctx)
	otlp, err := otlptrace.New(lifetime, &collector{conn: conn, timeout: t.cfg.OTLPTimeout.Std(), resource: t.resource})
	if err != nil {
		return fmt.Errorf("set up the export of traces to %s: %w", t.endpoint.target, err)
	}
	exportCtx, abort := context.WithCancel(lifetime)
	defer abort()
	t.sdk.RegisterSpanProcessor(sdktrace.NewBatchSpanProcessor(
		&reportingExporter{SpanExporter: otlp, ctx: exportCtx, log: t.log.With().Str(KeyEndpoint, t.endpoint.target).Logger()},
		sdktrace.WithExportTimeout(t.cfg.OTLPTimeout.Std()), sdktrace.WithMaxQueueSize(maxQueue),
		sdktrace.WithMaxExportBatchSize(maxBatch), sdktrace.WithBatchTimeout(exportDelay)))
	close(t.attached)

	<-ctx.Done()
	// The deadline cuts the exports and not the shutdown call, because the SDK
	// leaves its goroutines behind when that call runs out of time.
	deadline, release := context.WithTimeout(lifetime, t.cfg.OTLPShutdownTimeout.Std())
	defer release()
	defer context.AfterFunc(deadline, abort)()
	if err := t.sdk.Shutdown(lifetime); err != nil {
		t.log.Warn().Err(err).Msg("traces were not exported completely at the end")
	}
	return nil
}
