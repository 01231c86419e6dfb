package daemons_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// behind is somebody with lifecycle's certificate, of whom a relay learns that there is a lifecycle, and nothing else.
func behind(t *testing.T, ca *meshtest.CA) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{ca.Issue(t, "lifecycle").TLS(t)},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	})))
	healthpb.RegisterHealthServer(server, health.NewServer())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// TestWrongInputRelay: a relay that has something wrong has no socket for a gateway. It has no account in the cluster, so /readyz and the log say
// why, and no Event.
func TestWrongInputRelay(t *testing.T) {
	t.Parallel()
	ca := meshtest.NewCA(t)
	right := pair(ca.Issue(t, "relay"), ca.PEM)
	settings := fmt.Sprintf(`[openshell.drivers.kubernetes]
socket_path = "DIR/driver/driver.sock"
[portcullis.mesh]
cert_file = "DIR/tls.crt"
key_file = "DIR/tls.key"
ca_file = "DIR/ca.crt"
[portcullis.relay]
http_address = "127.0.0.1:0"
wait_at_start = true
lifecycle_address = %q
`, behind(t, ca))
	cases := chosen(wrongCertificates(t, ca, "relay"), wrongSettings(`"DIR/driver/driver.sock"`, "socket is relative", `"driver.sock"`))
	judge(t, "relay", cases, func(*wrong) *ward { return newMuteWard(t, "lifecycle relay", settings, right) }, func(w *ward) error {
		path, err := w.socket()
		if err != nil {
			return err
		}
		conn, err := udsock.NewClient(path)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(w.t.Context(), program.Limit)
		defer cancel()
		// Who is behind it knows no such call, which a relay passes on.
		_, err = computev1.NewComputeDriverClient(conn).GetCapabilities(ctx, &computev1.GetCapabilitiesRequest{})
		if status.Code(err) != codes.Unimplemented {
			return fmt.Errorf("the call is not passed on: %w", err)
		}
		return nil
	})
}
