package telemetry

import (
	"context"
	"fmt"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// retryPolicy makes gRPC repeat an export that the collector could not take now. The codes are those that the OTLP
// specification calls retryable and that a server answers with; the wait grows from about 1 s to about 5 s.
const retryPolicy = `{"methodConfig":[{
	"name":[{"service":"opentelemetry.proto.collector.trace.v1.TraceService"}],
	"retryPolicy":{"maxAttempts":5,"initialBackoff":"1s","maxBackoff":"5s","backoffMultiplier":2,
		"retryableStatusCodes":["UNAVAILABLE","ABORTED","OUT_OF_RANGE","DATA_LOSS"]}}]}`

// collector sends spans over a connection, and nothing else with them. It stands in for otlptracegrpc, which takes
// headers, certificates and files to read without bound from OTEL_ variables, and prints those that are malformed.
type collector struct {
	conn     *grpc.ClientConn
	timeout  time.Duration
	resource *resourcepb.Resource
}

// Start fulfils otlptrace.Client.
func (*collector) Start(context.Context) error { return nil }

// Stop fulfils otlptrace.Client. The connection is its owner's to close.
func (*collector) Stop(context.Context) error { return nil }

// UploadTraces fulfils otlptrace.Client. The resource is ours alone: the SDK adds what OTEL_RESOURCE_ATTRIBUTES says.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for _, s := range spans {
		s.Resource, s.SchemaUrl = c.resource, ""
	}
	answer, err := collectorpb.NewTraceServiceClient(c.conn).
		Export(ctx, &collectorpb.ExportTraceServiceRequest{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if refused := answer.GetPartialSuccess().GetRejectedSpans(); refused > 0 {
		return fmt.Errorf("the collector refused %d spans: %s", refused, answer.GetPartialSuccess().GetErrorMessage())
	}
	return nil
}
