package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// ConnectNATS makes the daemon's connection to NATS and adds it, with its readiness check.
func (p *Parts[S]) ConnectNATS(cfg natsconn.Config) (*natsconn.Conn, error) {
	conn, err := p.ConnectNATSUnchecked(cfg)
	if err != nil {
		return nil, err
	}
	return conn, p.Checks.AddReadiness(natsconn.Section, conn.Ready)
}

// ConnectNATSUnchecked is ConnectNATS without the readiness check: for a daemon that can do its work for a while without
// the connection, and has a check of its own for when it cannot.
func (p *Parts[S]) ConnectNATSUnchecked(cfg natsconn.Config) (*natsconn.Conn, error) {
	cfg.Name = "portcullis-" + p.name
	conn, err := natsconn.New(cfg, telemetry.Component(p.Log, natsconn.Section), p.Registry)
	if err != nil {
		return nil, err
	}
	p.Group.Add(natsconn.Section, conn.Run)
	return conn, nil
}

// Checked is what has a readiness check.
type Checked interface {
	Ready(ctx context.Context) error
}

// ListReady is the readiness check of a reader of the allowlist that says all there is to say: nil while the list is Fresh, whatever the
// connection is. Otherwise it says why not, and what is wrong with the connection too if that is known.
func ListReady(reader, conn Checked) func(context.Context) error {
	return func(ctx context.Context) error {
		err := reader.Ready(ctx)
		if err == nil || errors.Is(err, natsconn.ErrNotConnected) {
			return err
		}
		if trouble := conn.Ready(ctx); trouble != nil {
			return fmt.Errorf("%w: %w", err, trouble)
		}
		return err
	}
}

// KubernetesDefaults are kubeclient's, under the daemon's own name in the API server's audit log.
func KubernetesDefaults(daemon string) kubeclient.Config {
	cfg := kubeclient.DefaultConfig()
	cfg.UserAgent = "portcullis-" + daemon
	return cfg
}

// ConnectKubernetes makes the daemon's clients of the cluster and adds their readiness check.
func (p *Parts[S]) ConnectKubernetes(cfg kubeclient.Config) (*kubeclient.Clients, error) {
	log := telemetry.Component(p.Log, kubeclient.Section)
	clients, err := kubeclient.New(cfg, log, p.Registry)
	if err != nil {
		return nil, err
	}
	log.Info().Str(telemetry.KeyEndpoint, clients.Server()).Str("from", clients.From()).Msg("cluster chosen")
	return clients, p.Checks.AddReadiness(kubeclient.Section, clients.Ready)
}

// RequireSandboxes adds the readiness check that the cluster has Sandboxes: for a daemon to which nothing else would tell it before its first
// call.
func (p *Parts[S]) RequireSandboxes(clients *kubeclient.Clients) error {
	served := clients.Serves(sandboxapi.Group, "install the CRD of Agent Sandbox")
	return p.Checks.AddReadiness(sandboxapi.Resource, served.Ready)
}

// ServeMesh joins the mesh and adds a server there for the callers that policy permits.
// The health service is added for every member of the mesh, and must not be in policy.
func (p *Parts[S]) ServeMesh(ctx context.Context, own ServerConfig, cfg meshrpc.Config, policy meshrpc.Policy, register func(meshrpc.Registrar)) error {
	mesh, err := meshrpc.New(cfg, meshrpc.Deps{
		Daemon:         p.name,
		Log:            telemetry.Component(p.Log, meshrpc.Section),
		Registerer:     p.Registry,
		TracerProvider: p.Tracing.Provider(),
	})
	if err != nil {
		return err
	}
	everyone := []string{meshrpc.AnyDaemon}
	if cfg.AllowPlaintextLoopback {
		everyone = append(everyone, meshrpc.PlaintextCaller)
	}
	policy[meshrpc.HealthService] = everyone
	log := telemetry.Component(p.Log, "grpc")
	server, err := mesh.NewServer(policy, func(s meshrpc.Registrar) {
		register(s)
		daemon.RegisterHealth(s, p.Checks)
	}, daemon.ServerOptions(log, p.Checks)...)
	if err != nil {
		return err
	}
	if err := p.Checks.AddReadiness(meshrpc.Section, mesh.Ready); err != nil {
		return err
	}
	listener, err := mesh.Listen(ctx, own.ListenAddress)
	if err != nil {
		return err
	}
	log.Info().Str(telemetry.KeyAddress, listener.Addr().String()).Msg("serving the mesh")
	p.Group.Add(meshrpc.Section, mesh.Run)
	p.Group.Add("grpc", func(ctx context.Context) error {
		return daemon.ServeGRPC(ctx, server, listener, p.Drain(), log)
	})
	return nil
}
