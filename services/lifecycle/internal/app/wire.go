package app

import (
	"context"
	"errors"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/capabilities"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/driver"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/observe"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/relay"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/template"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Bounds of one connection. The gateway is one client with many calls; policies and images are small. Answers have relay.MaxAnswerBytes.
const (
	maxMessageBytes = 8 << 20
	maxStreams      = 1024
)

// Daemon describes the program.
func Daemon() command.Daemon[*Settings] {
	return command.Daemon[*Settings]{
		Name:     Name,
		Short:    "Serve the compute driver contract to the gateway",
		Settings: defaults,
		Validate: validate,
		Wire:     wire,
		Commands: func(_ command.Load[*Settings], env command.Environment) []*cobra.Command {
			return []*cobra.Command{relayDaemon().Subcommand("relay", env)}
		},
	}
}

func wire(ctx context.Context, p *command.Parts[*Settings]) error {
	list, err := followList(p)
	if err != nil {
		return err
	}
	clients, err := p.ConnectKubernetes(p.Settings.Kubernetes)
	if err != nil {
		return err
	}
	mesh, err := joinMesh(p)
	if err != nil {
		return err
	}
	served, err := newDriver(p, clients, mesh, list)
	if err != nil {
		return err
	}
	p.Group.Add("reaper", served.Run)
	if err := serveRelays(ctx, p, mesh, served); err != nil {
		return err
	}
	server, err := newServer(p, served)
	if err != nil {
		return err
	}
	return serveSocket(ctx, p, server)
}

// followList adds the reader of the allowlist in operator mode; nil in the others.
func followList(p *command.Parts[*Settings]) (workspaces.List, error) {
	if p.Config.Kubernetes.WorkspaceMode != driverconf.ModeOperator {
		return nil, nil
	}
	// Get, list, stop and delete work without the list, so the connection is no part of readiness; the list itself is.
	conn, err := p.ConnectNATSUnchecked(p.Settings.NATS)
	if err != nil {
		return nil, err
	}
	cfg := allowkv.ReaderConfig{GatewayID: p.Config.Kubernetes.GatewayID, Name: Name, Config: p.Settings.Allowlist}
	reader, err := allowkv.NewReader(cfg, conn, telemetry.Component(p.Log, allowlist.Section), p.Registry)
	if err != nil {
		return nil, err
	}
	p.Group.Add(allowlist.Section, reader.Run)
	return reader, p.Checks.AddReadiness(allowlist.Section, command.ListReady(reader, conn))
}

func joinMesh(p *command.Parts[*Settings]) (*meshrpc.Mesh, error) {
	mesh, err := meshrpc.New(p.Settings.Mesh, meshrpc.Deps{
		Daemon: Name, Log: telemetry.Component(p.Log, meshrpc.Section), Registerer: p.Registry, TracerProvider: p.Tracing.Provider(),
	})
	if err != nil {
		return nil, err
	}
	p.Group.Add(meshrpc.Section, mesh.Run)
	return mesh, p.Checks.AddReadiness(meshrpc.Section, mesh.Ready)
}

// dial adds a client of another daemon, closed when the group ends.
func dial[S command.Settings](p *command.Parts[S], mesh *meshrpc.Mesh, to meshrpc.Target) (*grpc.ClientConn, error) {
	conn, err := mesh.NewClient(to)
	if err != nil {
		return nil, err
	}
	p.Opened(conn)
	p.Group.Add("connection to "+to.Daemon, func(ctx context.Context) error {
		<-ctx.Done()
		return conn.Close()
	})
	return conn, nil
}

func newDriver(p *command.Parts[*Settings], clients *kubeclient.Clients, mesh *meshrpc.Mesh, list workspaces.List) (*driver.Driver, error) {
	k, own := &p.Config.Kubernetes, &p.Settings.Own
	scheme := workspace.SchemeOf(k)
	companions, err := dial(p, mesh, meshrpc.Target{Daemon: "supervisorctl", Address: own.SupervisorctlAddress, Idempotent: methodsOf(&supervisorv1.SupervisorService_ServiceDesc)})
	if err != nil {
		return nil, err
	}
	bearers, err := dial(p, mesh, meshrpc.Target{Daemon: "tokenauth", Address: own.TokenauthAddress, Idempotent: methodsOf(&tokenauthv1.TokenAuthService_ServiceDesc)})
	if err != nil {
		return nil, err
	}
	deps := driver.Deps{
		Companions: supervisorv1.NewSupervisorServiceClient(companions), Bearers: tokenauthv1.NewTokenAuthServiceClient(bearers),
	}
	if err := pureParts(&deps, k, own); err != nil {
		return nil, err
	}
	if err := clusterParts(&deps, p, scheme, clients); err != nil {
		return nil, err
	}
	deps.Workspaces, err = workspaces.New(workspaces.Settings{
		Scheme: scheme, Source: k.Namespace, Account: k.ServiceAccountName, SSHIngress: k.ManagedSSHIngress, SCC: own.OpenShiftSCC,
		AllocationWait: workspaces.AllocationWait, AllocationPoll: workspaces.AllocationPoll,
	}, clients.Calls.Typed, list, telemetry.Component(p.Log, "workspaces"))
	if err != nil {
		return nil, err
	}
	return driver.New(own.Settings, k, deps, telemetry.Component(p.Log, "driver"), p.Registry)
}

// pureParts are the parts that ask nobody.
func pureParts(deps *driver.Deps, k *driverconf.Kubernetes, own *Own) error {
	var problems [4]error
	deps.Capabilities, problems[0] = capabilities.New(k, capabilities.Options{Version: telemetry.ReadBuild().Version, LegacyGateway: own.AllowLegacyGateway})
	deps.Requests, problems[1] = request.New(k)
	deps.Templates, problems[2] = template.New(k, template.Options{Telemetry: own.SandboxTelemetry})
	deps.Inventory, problems[3] = inventory.New(k)
	return errors.Join(problems[:]...)
}

// clusterParts are those that look at Sandboxes and write them.
func clusterParts(deps *driver.Deps, p *command.Parts[*Settings], scheme workspace.Scheme, clients *kubeclient.Clients) error {
	sources, err := observe.NewKube(scheme, clients.Calls, clients.Watches)
	if err != nil {
		return err
	}
	view, err := observe.New(p.Settings.Own.View, scheme, sources.Sources(), sources, telemetry.Component(p.Log, "view"), p.Registry)
	if err != nil {
		return err
	}
	p.Group.Add("view", view.Run)
	if err := p.Checks.AddReadiness("view", view.Check); err != nil {
		return err
	}
	writes, err := cluster.New(scheme, clients.Calls)
	if err != nil {
		return err
	}
	deps.View, deps.Finder, deps.Cluster = view, sources, writes
	return nil
}

// methodsOf are the full names of a service's methods, all of which are idempotent in the mesh.
func methodsOf(service *grpc.ServiceDesc) []string {
	names := make([]string, 0, len(service.Methods))
	for _, m := range service.Methods {
		names = append(names, "/"+service.ServiceName+"/"+m.MethodName)
	}
	return names
}

func register(p *command.Parts[*Settings], served computev1.ComputeDriverServer) func(meshrpc.Registrar) error {
	how := []contract.Option{contract.WithPrefixes(contract.Prefixes()...)}
	if p.Settings.Own.AllowLegacyGateway {
		how = append(how, contract.WithLegacyGateways())
	}
	return func(to meshrpc.Registrar) error {
		return contract.Register(meshrpc.RefuseMalformed(to, verdict.Decision.SafeErr), served, how...)
	}
}

func newServer(p *command.Parts[*Settings], served computev1.ComputeDriverServer) (*grpc.Server, error) {
	options := append(daemon.ServerOptions(telemetry.Component(p.Log, "grpc"), p.Checks), socketOptions()...)
	server := grpc.NewServer(append(options, grpc.MaxSendMsgSize(relay.MaxAnswerBytes), meshrpc.Tracing(p.Tracing.Provider()), meshrpc.KeepMalformed())...)
	if err := register(p, served)(server); err != nil {
		return nil, err
	}
	daemon.RegisterHealth(server, p.Checks)
	return server, nil
}

// serveRelays adds the server for relays, where one is asked for.
func serveRelays(ctx context.Context, p *command.Parts[*Settings], mesh *meshrpc.Mesh, served computev1.ComputeDriverServer) error {
	address := p.Settings.Own.RelayListenAddress
	if address == "" {
		return nil
	}
	callers := []string{RelayName}
	if p.Settings.Mesh.AllowPlaintextLoopback {
		callers = append(callers, meshrpc.PlaintextCaller)
	}
	policy := meshrpc.Policy{meshrpc.HealthService: {meshrpc.AnyDaemon}}
	for _, prefix := range contract.Prefixes() {
		policy[prefix.ServiceName()] = callers
	}
	log := telemetry.Component(p.Log, "relays")
	var failed error
	server, err := mesh.NewServer(policy, func(s meshrpc.Registrar) {
		failed = register(p, served)(s)
		daemon.RegisterHealth(s, p.Checks)
	}, relayServerOptions(log, p.Checks)...)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	listener, err := mesh.Listen(ctx, address)
	if err != nil {
		return err
	}
	p.Opened(listener)
	log.Info().Str(telemetry.KeyAddress, listener.Addr().String()).Msg("serving relays")
	p.Group.Add("relays", func(ctx context.Context) error {
		return daemon.ServeGRPC(ctx, server, listener, p.Drain(), log)
	})
	return nil
}

// relayServerOptions make what relays are served like what the socket serves. A watch that is cut off would lose what is deleted until
// the gateway has opened another, and a connection that ends beside it would part the calls from it.
func relayServerOptions(log zerolog.Logger, checks *daemon.Checks) []grpc.ServerOption {
	return append(daemon.ServerOptions(log, checks), grpc.MaxSendMsgSize(relay.MaxAnswerBytes), meshrpc.EndlessStreams())
}
