package service_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// wire is a codec that sends bytes as they are.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

// TestCredentialThatIsNoText: it is refused by its field, nobody is asked about it, and no line has it.
func TestCredentialThatIsNoText(t *testing.T) {
	h := newHanging()
	f := serve(t, service.DefaultSettings(), h, nil)
	conn, err := f.mesh("lifecycle", prometheus.NewRegistry()).NewClient(meshrpc.Target{Daemon: "tokenauth", Address: f.address})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	sent := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("hidden\xff"))
	err = conn.Invoke(t.Context(), tokenauthv1.TokenAuthService_Authenticate_FullMethodName, sent, new(tokenauthv1.AuthenticateResponse), grpc.ForceCodecV2(wire{}))
	d, ok := verdict.FromError(err)
	if status.Code(err) != codes.InvalidArgument || !ok || d.Reason != verdict.RequestInvalid || d.Message() != "credential: is not valid UTF-8" {
		t.Errorf("%v: %s", err, d.Explain())
	}
	f.stop()
	if len(h.begun) != 0 || strings.Contains(f.log.String(), "hidden") {
		t.Errorf("%d inquiries; the log: %s", len(h.begun), f.log.String())
	}
}
