package runtime_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
	"github.com/portcullis-mesh/portcullis/test/companions/runtime"
)

func TestMain(m *testing.M) {
	companionstest.PlayWorkload()
	goleak.VerifyTestMain(m)
}

// site is a runtime that serves on loopback.
type site struct {
	*materialtest.Material
	files   materialtest.Files
	address string
	output  *companionstest.Output
	stop    func() // stops the runtime and waits for it
}

// serve starts a runtime from material that change may spoil, or returns why it does not start.
func serve(t *testing.T, change func(*materialtest.Material)) (*site, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := materialtest.Make(t, listener.Addr().String())
	if change != nil {
		change(m)
	}
	s := &site{Material: m, files: m.Write(t), address: listener.Addr().String(), output: companionstest.NewOutput()}
	r, err := runtime.New(runtime.Config{
		BoundaryFile: s.files.Boundary, Now: time.Now, Output: s.output, Log: zerolog.Nop(), Listener: listener,
	})
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the runtime ended with %v", err)
		}
	})
	t.Cleanup(s.stop)
	return s, nil
}

func served(t *testing.T) *site {
	t.Helper()
	s, err := serve(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bearer presents a token.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if b == "" {
		return nil, nil
	}
	return map[string]string{"authorization": string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }

// dial connects with an authorization; trust is the CA.
func (s *site) dial(t *testing.T, authorization string) *grpc.ClientConn {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.Descriptor["tls"].(materialtest.Object)["trust_anchor_pem"].(string)))
	cc, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithNoProxy(), grpc.WithPerRPCCredentials(bearer(authorization)),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: materialtest.ServerName(), MinVersion: tls.VersionTLS13})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// trusted connects with a valid bearer.
func (s *site) trusted(t *testing.T) *grpc.ClientConn {
	t.Helper()
	return s.dial(t, "Bearer "+s.Token(t, nil))
}

// claims are the six that the runtime has.
func claims() map[string]string {
	return map[string]string{
		"kubernetes.namespace_uid":                  "aaaa0000-0000-4000-8000-000000000001",
		"kubernetes.sandbox_resource_uid":           "aaaa0000-0000-4000-8000-000000000002",
		"kubernetes.supervisor_pod_uid":             "aaaa0000-0000-4000-8000-000000000003",
		"kubernetes.egress_policy_uid":              "11112222-3333-4444-5555-666677778888",
		"kubernetes.egress_policy_resource_version": "4711",
		"kubernetes.workload_pod_uid":               materialtest.PodUID,
	}
}

func attach(instance string) boundary.Attach {
	return boundary.Attach{Operation: boundary.OpAttach, SupervisorInstanceID: instance, Policy: []byte("null"), ResourceClaims: claims()}
}

var confirm = boundary.Confirm{Operation: boundary.OpConfirm}

// ask sends a request on a stream of its own.
func ask(ctx context.Context, cc *grpc.ClientConn, request, body any) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := boundary.Ask(ctx, cc, request, body)
	return err
}

// must asks for what must be granted.
func must(ctx context.Context, t *testing.T, cc *grpc.ClientConn, request, body any) {
	t.Helper()
	if err := ask(ctx, cc, request, body); err != nil {
		t.Fatalf("%+v: %v", request, err)
	}
}

// refused checks that an error is of a kind.
func refused(t *testing.T, err error, kind boundary.Kind, about string) {
	t.Helper()
	var f *boundary.Failure
	if !errors.As(err, &f) || f.Kind != kind || !bytes.Contains([]byte(f.Message), []byte(about)) {
		t.Errorf("error %v, want %s for %q", err, kind, about)
	}
}

// confirmed returns a connection on which everything is allowed.
func (s *site) confirmed(ctx context.Context, t *testing.T) *grpc.ClientConn {
	t.Helper()
	cc := s.trusted(t)
	must(ctx, t, cc, attach(boundary.NewUUID()), new(boundary.Attached))
	must(ctx, t, cc, confirm, new(boundary.Confirmation))
	return cc
}

// execute runs a command with input to its end.
func execute(ctx context.Context, t *testing.T, cc *grpc.ClientConn, req boundary.Exec, stdin string) (stdout, stderr string, exit string) {
	t.Helper()
	stream, err := boundary.Ask(ctx, cc, req, new(boundary.Started))
	if err != nil {
		t.Fatalf("exec: %v", err)
	}
	if err := errors.Join(boundary.WriteStream(stream, boundary.Stdin, []byte(stdin)), boundary.WriteStream(stream, boundary.StdinClosed, nil)); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for {
		channel, b, err := boundary.ReadStream(stream)
		if err != nil {
			t.Fatalf("exec: %v", err)
		}
		switch channel {
		case boundary.Stdout:
			stdout += string(b)
		case boundary.Stderr:
			stderr += string(b)
		case boundary.Exited:
			return stdout, stderr, string(b)
		default:
			t.Fatalf("exec: a frame on channel %d", channel)
		}
	}
}

func exec(t *testing.T, args ...string) boundary.Exec {
	t.Helper()
	return boundary.Exec{
		Operation: boundary.OpExec, Command: companionstest.Command(t, args...), Env: map[string]string{}, Workdir: t.TempDir(),
		ExpiresAt: time.Now().Add(30 * time.Second).UnixMilli(),
	}
}
