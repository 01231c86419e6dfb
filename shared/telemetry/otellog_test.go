package telemetry

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/metadata"
)

// TestEnvironmentIsNeitherUsedNorShown sets what the OpenTelemetry libraries and gRPC would take from the environment,
// sound and malformed, and looks at the wire and the log.
func TestEnvironmentIsNeitherUsedNorShown(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS":            "authorization=hunter2",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS":     "hunter2",
		"OTEL_EXPORTER_OTLP_CERTIFICATE":        "/dev/zero",
		"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": "/dev/zero",
		"OTEL_EXPORTER_OTLP_TIMEOUT":            "hunter2",
		"OTEL_RESOURCE_ATTRIBUTES":              "owner=hunter2,hunter2",
		"OTEL_SERVICE_NAME":                     "hunter2",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT":       "hunter2",
		"OTEL_SPAN_EVENT_COUNT_LIMIT":           "0",
		"OTEL_BSP_MAX_QUEUE_SIZE":               "hunter2",
		"OTEL_BSP_SCHEDULE_DELAY":               "hunter2",
		"OTEL_TRACES_SAMPLER":                   "hunter2",
		"OTEL_TRACES_SAMPLER_ARG":               "hunter2",
		"HTTPS_PROXY":                           "http://u:hunter2@[::1",
	} {
		t.Setenv(name, value)
	}
	var out lockedBuffer
	log := NewLogger(&out, zerolog.TraceLevel, "nswatch")
	o := OTelLog{Log: log}
	otel.SetLogger(o.Logger()) // process-wide, as nothing else in this package's tests is
	otel.SetErrorHandler(o)

	received := make(chan metadata.MD, 10)
	to := startCollector(t, func(ctx context.Context) error {
		md, _ := metadata.FromIncomingContext(ctx)
		received <- md
		return nil
	})
	cfg := DefaultConfig()
	cfg.OTLPEndpoint = "http://" + to.address
	tracing := newTracing(t, cfg, log)
	stop := run(t, tracing)
	_, s := tracing.Provider().Tracer("test").Start(context.Background(), "work")
	s.AddEvent("milestone")
	s.End()
	stop()
	select {
	case request := <-to.requests:
		if !bytes.Contains(request, []byte("portcullis-nswatch")) || !bytes.Contains(request, []byte("milestone")) || bytes.Contains(request, []byte("hunter2")) {
			t.Errorf("the export is not ours alone: %q", request)
		}
		for key, values := range <-received {
			if key == "authorization" || strings.Contains(strings.Join(values, " "), "hunter2") {
				t.Errorf("header %s from the environment was sent: %q", key, values)
			}
		}
	default:
		t.Errorf("nothing was exported: %s", out.String())
	}
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("a value is in the log: %s", out.String())
	}
	if !strings.Contains(out.String(), "check the OTEL_ variables") {
		t.Errorf("the malformed variables are not mentioned: %s", out.String())
	}
}

func TestOTelLogWithholdsTexts(t *testing.T) {
	var out lockedBuffer
	o := OTelLog{Log: zerolog.New(&out)}
	l := o.Logger().WithName("n").WithValues("token", "hunter2")
	l.Error(errors.New("hunter2"), "parse headers", "input", "hunter2")
	l.V(1).Info("unusual", "input", "hunter2")
	l.V(4).Info("internal", "input", "hunter2")
	o.Handle(errors.New("hunter2"))
	for text, want := range map[string]int{"hunter2": 0, "parse headers": 1, "unusual": 1, "internal": 0, "errors.errorString": 2} {
		if got := strings.Count(out.String(), text); got != want {
			t.Errorf("%q is %d times in the log, want %d:\n%s", text, got, want, out.String())
		}
	}
	OTelLog{}.Handle(errors.New("x")) // writes nothing, and does not panic
}
