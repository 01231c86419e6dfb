package telemetry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Tracing is the tracer provider of a daemon with its export.
//
// It is not installed in OpenTelemetry's globals: hand Provider and Propagator to
// what should trace, as otelgrpc.WithTracerProvider and WithPropagators do.
type Tracing struct {
	cfg      Config
	endpoint endpoint
	creds    credentials.TransportCredentials
	log      zerolog.Logger
	sdk      *sdktrace.TracerProvider // nil when nothing is exported
	attached chan struct{}            // closed when spans reach the export
}

// NewTracing prepares tracing for a validated cfg and starts nothing. Spans that end
// while Run runs are exported, others are dropped. With no endpoint the provider records nothing and
// passes the caller's trace context on.
//
// It fails when the endpoint is malformed or the CA file cannot be read or holds
// no certificate. A collector that cannot be reached is not an error: Run logs it
// once when it begins and once when it ends.
//
// The OpenTelemetry libraries read some OTEL_ environment variables on their own;
// OTEL_EXPORTER_OTLP_HEADERS, OTEL_RESOURCE_ATTRIBUTES, the span limits and the batch
// delay and sizes take effect; endpoint, TLS, sampler and timeouts do not.
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
	t.sdk = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.TraceSampleRatio))),
		sdktrace.WithResource(resource.NewSchemaless(
			// Names of the OpenTelemetry semantic conventions for resources.
			attribute.String("service.namespace", Namespace),
			attribute.String("service.name", Namespace+"-"+daemon),
			attribute.String("service.version", build.Version),
		)),
	)
	return t, nil
}

func transport(to endpoint, caFile string) (credentials.TransportCredentials, error) {
	if !to.tls {
		return insecure.NewCredentials(), nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read otlp_ca_file: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("otlp_ca_file %s holds no PEM certificate: put the collector's CA there", caFile)
		}
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
	conn, err := grpc.NewClient(t.endpoint.target, grpc.WithTransportCredentials(t.creds))
	if err != nil {
		return fmt.Errorf("set up the export of traces to %s: %w", t.endpoint.target, err)
	}
	defer func() { _ = conn.Close() }() // nothing is in flight any more

	lifetime := context.WithoutCancel(ctx)
	otlp, err := otlptracegrpc.New(lifetime,
		otlptracegrpc.WithGRPCConn(conn), otlptracegrpc.WithTimeout(t.cfg.OTLPTimeout.Std()))
	if err != nil {
		return fmt.Errorf("set up the export of traces to %s: %w", t.endpoint.target, err)
	}
	exportCtx, abort := context.WithCancel(lifetime)
	defer abort()
	t.sdk.RegisterSpanProcessor(sdktrace.NewBatchSpanProcessor(
		&reportingExporter{SpanExporter: otlp, ctx: exportCtx, log: t.log.With().Str(KeyEndpoint, t.endpoint.target).Logger()},
		sdktrace.WithExportTimeout(t.cfg.OTLPTimeout.Std())))
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
