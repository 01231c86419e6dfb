package verdict

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	verdictv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/verdict/v1"
)

// refuser answers every call with its decision.
type refuser struct {
	tokenauthv1.UnimplementedTokenAuthServiceServer
	decision Decision
}

func (r refuser) Authenticate(context.Context, *tokenauthv1.AuthenticateRequest) (*tokenauthv1.AuthenticateResponse, error) {
	return nil, r.decision.Err()
}

func TestRefusalCrossesARealConnection(t *testing.T) {
	sent := Refuse(Stale, "allowlist", "the newest proof is 16s old, the limit is 15s").WithAllowlist(evidence)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	tokenauthv1.RegisterTokenAuthServiceServer(server, refuser{decision: sent})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	_, err = tokenauthv1.NewTokenAuthServiceClient(conn).Authenticate(ctx, &tokenauthv1.AuthenticateRequest{})
	got, ok := FromError(err)
	if !ok {
		t.Fatalf("no refusal in %v", err)
	}
	if got != sent.WithMessage(sent.Message()) {
		t.Errorf("received %+v\nsent     %+v", got, sent)
	}
}

// okStatus is an error that claims to be OK.
type okStatus struct{}

func (okStatus) Error() string              { return "ok" }
func (okStatus) GRPCStatus() *status.Status { return nil }

func withDetail(t *testing.T, code codes.Code, detail protoadapt.MessageV1) error {
	t.Helper()
	st, err := status.New(code, "no").WithDetails(detail)
	if err != nil {
		t.Fatal(err)
	}
	return st.Err()
}

// garbled is a status whose detail says Refusal and is none.
func garbled(t *testing.T) error {
	t.Helper()
	p := status.Convert(withDetail(t, codes.PermissionDenied, &verdictv1.Refusal{})).Proto()
	p.Details[0].Value = []byte{0x0a, 0xff}
	return status.FromProto(p).Err()
}

// FuzzFromError sends arbitrary bytes as the detail: nothing may grant, and what was read must be
// fit to be sent on unchanged.
func FuzzFromError(f *testing.F) {
	seed, err := proto.Marshal(Refuse(Stale, "allowlist", "old").WithAllowlist(evidence).refusal())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(codes.Unavailable), "message", seed)
	f.Add(uint32(codes.PermissionDenied), "", []byte{0x10, 0x01})
	f.Add(uint32(codes.Internal), "\xff", []byte{0x32, 0x02, 0x08, 0x01})
	f.Fuzz(func(t *testing.T, code uint32, message string, detail []byte) {
		carrier, err := status.New(codes.Internal, message).WithDetails(&verdictv1.Refusal{})
		if err != nil {
			t.Fatal(err)
		}
		p := carrier.Proto()
		p.Code, p.Details[0].Value = int32(code), detail
		first, ok := FromError(status.FromProto(p).Err())
		if first.Granted() || first.Code() == codes.OK {
			t.Fatalf("bytes from the wire grant: %+v", first)
		}
		if !ok {
			return
		}
		second, ok := FromError(first.Err())
		if !ok || second != first.WithMessage(first.Message()) {
			t.Fatalf("sent on it changes:\n%+v\n%+v", first, second)
		}
	})
}
