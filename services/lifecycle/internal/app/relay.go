package app

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/relay"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

// RelayName is the relay's name, in the mesh and in the settings: it is a process of its own, beside the gateway, and must not be
// taken for lifecycle.
const RelayName = "relay"

// RelayOwn is the table [portcullis.relay].
type RelayOwn struct {
	daemon.Config
	// LifecycleAddress is "host:port" of lifecycle's relay_listen_address, usually of a headless Service. All addresses of the host are
	// replicas, and so are several "host:port" with commas between.
	LifecycleAddress string `toml:"lifecycle_address"`
}

// Validate reports every problem with its key.
func (o *RelayOwn) Validate(report func(key, problem string)) {
	o.Config.Validate(report)
	if err := meshrpc.CheckAddress(o.LifecycleAddress); err != nil {
		report("lifecycle_address", err.Error()+"; name the Service of the lifecycle Deployment and the port of its relay_listen_address")
	}
}

// RelaySettings are what the relay reads beside the stock table, of which it needs the socket alone.
type RelaySettings struct {
	Own  RelayOwn
	Mesh meshrpc.Config
}

// Sections implements command.Settings.
func (s *RelaySettings) Sections() map[string]driverconf.Section {
	return map[string]driverconf.Section{RelayName: &s.Own, meshrpc.Section: &s.Mesh}
}

// Process implements command.Settings.
func (s *RelaySettings) Process() daemon.Config { return s.Own.Config }

func relayDaemon() command.Daemon[*RelaySettings] {
	return command.Daemon[*RelaySettings]{
		Name:  RelayName,
		Short: "Serve the private socket beside the gateway and pass its calls on to a lifecycle that runs elsewhere",
		Settings: func() *RelaySettings {
			s := &RelaySettings{Own: RelayOwn{Config: daemon.DefaultConfig()}, Mesh: meshrpc.DefaultConfig()}
			s.Mesh.MaxMessageBytes = maxMessageBytes
			return s
		},
		Validate: func(cfg *driverconf.Config, _ *RelaySettings, report driverconf.Report) { validateSocket(cfg, report) },
		Wire:     wireRelay,
	}
}

func wireRelay(ctx context.Context, p *command.Parts[*RelaySettings]) error {
	mesh, err := meshrpc.New(p.Settings.Mesh, meshrpc.Deps{
		Daemon: RelayName, Log: telemetry.Component(p.Log, meshrpc.Section), Registerer: p.Registry, TracerProvider: p.Tracing.Provider(),
	})
	if err != nil {
		return err
	}
	p.Group.Add(meshrpc.Section, mesh.Run)
	if err := p.Checks.AddReadiness(meshrpc.Section, mesh.Ready); err != nil {
		return err
	}
	target := meshrpc.Target{Daemon: Name, Address: p.Settings.Own.LifecycleAddress}
	conn, err := dialLifecycle(p, mesh, target)
	if err != nil {
		return err
	}
	if p.Settings.Own.WaitAtStart {
		if err := reached(ctx, conn, target.Address); err != nil {
			return err
		}
	}
	passing, err := relay.New(conn, target.Address, p.Tracing.Provider())
	if err != nil {
		return err
	}
	log := telemetry.Component(p.Log, "grpc")
	server := grpc.NewServer(append(append(daemon.RelayOptions(log, p.Checks, relay.Unary), socketOptions()...), passing.ServerOptions()...)...)
	daemon.RegisterHealth(server, p.Checks)
	return serveSocket(ctx, p, server)
}

// answerPatience bounds one try to reach a lifecycle at the start. Probes wait for its end, and their limit is five seconds.
const answerPatience = 3 * time.Second

// reached is nil once a lifecycle has answered, ready or not. A gateway shakes hands once, when it starts (contract 2.3), and ends if nobody
// answers: a relay that waits at its start lets none find the socket before.
func reached(ctx context.Context, conn *grpc.ClientConn, address string) error {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return fmt.Errorf("reach lifecycle at %s before a gateway is served: %s (is it running, and do both ends have certificates of one mesh?)",
			address, status.Convert(err).Message())
	default: // whatever it is, it is an answer
		return nil
	}
}

// unreadyPatience is how long a lifecycle may be not ready before its relays look for another. A view that is behind for a moment is
// common; a gateway repeats what it is refused every two seconds and more.
const unreadyPatience = 5 * time.Second

// dialLifecycle adds the connection that calls are passed to. Each replica has its own view of the cluster: what the gateway was told, the
// next answer must not be older than. So all calls are one replica's for as long as it can be reached and is ready.
func dialLifecycle(p *command.Parts[*RelaySettings], mesh *meshrpc.Mesh, target meshrpc.Target) (*grpc.ClientConn, error) {
	sticky := new(meshrpc.Sticky)
	one := target
	one.Sticky = sticky
	conn, err := dial(p, mesh, one)
	if err != nil {
		return nil, err
	}
	follower, err := relay.NewFollower(relay.Following{
		Backend: conn, Leave: sticky.Leave, Patience: unreadyPatience,
		Others: func() (*grpc.ClientConn, error) { return mesh.NewClient(target) },
	}, telemetry.Component(p.Log, "connection"))
	if err != nil {
		return nil, err
	}
	p.Group.Add("readiness of lifecycle", follower.Run)
	return conn, nil
}

// serveSocket adds the private socket with a server on it.
func serveSocket[S command.Settings](ctx context.Context, p *command.Parts[S], server *grpc.Server) error {
	log := telemetry.Component(p.Log, "socket")
	path := p.Config.Kubernetes.SocketPath
	listener, err := udsock.Listen(ctx, path, udsock.Options{Log: log, Registerer: p.Registry})
	if err != nil {
		return err
	}
	p.Opened(listener)
	if err := p.Checks.AddReadiness("socket", listener.Check); err != nil {
		return err
	}
	log.Info().Str(telemetry.KeyAddress, path).Msg("serving the driver")
	p.Group.Add("driver", func(ctx context.Context) error {
		return daemon.ServeGRPC(ctx, server, listener, p.Drain(), log)
	})
	return nil
}

// socketOptions bound what the gateway may send over the socket.
func socketOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(udsock.Credentials()),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxConcurrentStreams(maxStreams),
	}
}
