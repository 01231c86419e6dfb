package daemons_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// account is a ServiceAccount without any rights of its own: no daemon but nswatch and lifecycle needs one to be
// ready.
func account(t *testing.T) (kubeconfig string) {
	t.Helper()
	c := cluster.Start(t, cluster.ControlPlane)
	withSandboxes(t, c)
	return c.ServiceAccountKubeconfig(t, c.Namespace(t), "default")
}

func kubernetesTable(kubeconfig string) string {
	return fmt.Sprintf("[portcullis.kubernetes]\nkubeconfig = %q\n", kubeconfig)
}

// needed are the lines of its own section, and after them the stock table, without which a daemon does not start.
func needed(daemon string) string {
	if daemon != "supervisorctl" {
		return ""
	}
	return "lease_namespace = \"default\"\n[openshell.drivers.kubernetes]\nsupervisor_image = \"registry.example/supervisor:1\"\ngrpc_endpoint = \"https://gateway.example:8080\"\n"
}

// Parts of lifecycle's settings: what no stock table of it may lack, and its membership in a mesh of one machine.
const (
	runtimeImage = "sandbox_runtime_image = \"registry.example/runtime:1\"\n"
	alone        = "[portcullis.mesh]\nallow_plaintext_loopback = true\n"
)

// mesh makes a client's side of the mesh.
func mesh(t *testing.T, ca *meshtest.CA, daemon, server, address string) *grpc.ClientConn {
	t.Helper()
	files := meshtest.NewFiles(t, ca, daemon)
	cfg := meshrpc.DefaultConfig()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.Cert, files.Key, files.CA
	m, err := meshrpc.New(cfg, meshrpc.Deps{Daemon: daemon, Log: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := m.NewClient(meshrpc.Target{Daemon: server, Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestMeshServersKnowTheirCallers(t *testing.T) {
	t.Parallel()
	kubeconfig := account(t)
	for daemon, c := range map[string]struct {
		call func(context.Context, *grpc.ClientConn) error
		// want is what the handler says to an empty request.
		want codes.Code
	}{
		"tokenauth": {func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := tokenauthv1.NewTokenAuthServiceClient(conn).Authenticate(ctx, &tokenauthv1.AuthenticateRequest{})
			return err
		}, codes.InvalidArgument},
		"supervisorctl": {func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := supervisorv1.NewSupervisorServiceClient(conn).Status(ctx, &supervisorv1.StatusRequest{})
			return err
		}, codes.InvalidArgument},
	} {
		t.Run(daemon, func(t *testing.T) {
			t.Parallel()
			ca := meshtest.NewCA(t)
			files := meshtest.NewFiles(t, ca, daemon)
			p := program.Start(t, daemon, fmt.Sprintf("[portcullis.%s]\nhttp_address = \"127.0.0.1:0\"\nlisten_address = \"127.0.0.1:0\"\n%s"+
				"[portcullis.mesh]\ncert_file = %q\nkey_file = %q\nca_file = %q\n", daemon, needed(daemon), files.Cert, files.Key, files.CA)+kubernetesTable(kubeconfig))
			p.AwaitReady()
			address := p.Logged("serving the mesh", "address")
			ctx, cancel := context.WithTimeout(t.Context(), program.Limit)
			defer cancel()

			friend := mesh(t, ca, "lifecycle", daemon, address)
			if err := c.call(ctx, friend); status.Code(err) != c.want {
				t.Errorf("lifecycle gets %v, want the handler's %s", err, c.want)
			}
			cluster.Eventually(t, "health is SERVING", func(ctx context.Context) error {
				resp, err := healthpb.NewHealthClient(friend).Check(ctx, &healthpb.HealthCheckRequest{})
				if err == nil && resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
					err = fmt.Errorf("health is %s", resp.GetStatus())
				}
				return err
			})
			err := c.call(ctx, mesh(t, ca, "nswatch", daemon, address))
			decision, explained := verdict.FromError(err)
			if status.Code(err) != codes.PermissionDenied || !explained || decision.Reason != verdict.CallerNotAuthorized {
				t.Errorf("nswatch gets %v (%+v), want PERMISSION_DENIED with reason %s", err, decision, verdict.CallerNotAuthorized)
			}
			if err := c.call(ctx, mesh(t, meshtest.NewCA(t), "lifecycle", daemon, address)); status.Code(err) != codes.Unavailable {
				t.Errorf("another mesh's lifecycle gets %v, want no connection", err)
			}
			p.Stop()
		})
	}
}

func TestLifecycleServesThePrivateSocket(t *testing.T) {
	t.Parallel()
	kubeconfig := account(t)
	path := filepath.Join(shortDir(t), "driver", "driver.sock")
	serving := fmt.Sprintf("[openshell.drivers.kubernetes]\n"+runtimeImage+"socket_path = %q\n[portcullis.lifecycle]\nhttp_address = \"127.0.0.1:0\"\n", path)
	text := serving + alone + kubernetesTable(kubeconfig)
	p := program.Start(t, "lifecycle", text)
	p.AwaitNotReady("view") // its account may read no sandboxes

	ctx, cancel := context.WithTimeout(t.Context(), program.Limit)
	defer cancel()
	conn, err := udsock.NewClient(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, prefix := range contract.Prefixes() {
		under, err := contract.NewConn(conn, prefix)
		if err != nil {
			t.Fatal(err)
		}
		_, err = computev1.NewComputeDriverClient(under).GetCapabilities(ctx, &computev1.GetCapabilitiesRequest{})
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: a gateway that says nothing of itself gets %v, want FAILED_PRECONDITION", prefix, err)
		}
		// UNIMPLEMENTED would be taken for success here (contract 2.6).
		_, err = computev1.NewComputeDriverClient(under).EnsureWorkspace(ctx, &computev1.EnsureWorkspaceRequest{Workspace: "team"})
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: EnsureWorkspace gets %v, want FAILED_PRECONDITION: the account may not read namespaces", prefix, err)
		}
	}
	err = conn.Invoke(ctx, contract.OpenShell.FullMethod("GetGatewayListenerRequirements"),
		&computev1.GetGatewayListenerRequirementsRequest{}, &computev1.GetGatewayListenerRequirementsResponse{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("the removed method gets %v from a strict driver, want UNIMPLEMENTED", err)
	}

	fails(t, "lifecycle", text, nil, filepath.Dir(path), "another driver") // a second one must not take the socket over
	p.Stop()

	legacy := program.Start(t, "lifecycle", serving+"allow_legacy_gateway = true\n"+alone+kubernetesTable(kubeconfig))
	cluster.Eventually(t, "the removed method answers an older gateway", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return conn.Invoke(ctx, contract.OpenShell.FullMethod("GetGatewayListenerRequirements"),
			&computev1.GetGatewayListenerRequirementsRequest{}, &computev1.GetGatewayListenerRequirementsResponse{})
	})
	legacy.Stop()
}
