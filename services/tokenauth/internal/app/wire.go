package app

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/lookups"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Daemon describes the program.
func Daemon() command.Daemon[*Settings] {
	return command.Daemon[*Settings]{
		Name:     Name,
		Short:    "Authenticate ServiceAccount bearers",
		Settings: defaults,
		Validate: validate,
		Wire:     wire,
		Commands: commands,
	}
}

func wire(ctx context.Context, p *command.Parts[*Settings]) error {
	conn, err := connectNATS(p)
	if err != nil {
		return err
	}
	list, err := followList(p, conn)
	if err != nil {
		return err
	}
	trail, err := openTrail(p, conn)
	if err != nil {
		return err
	}
	clients, err := p.ConnectKubernetes(p.Settings.Kubernetes)
	if err != nil {
		return err
	}
	if err := p.RequireSandboxes(clients); err != nil {
		return err
	}
	inquirer, err := newInquirer(p.Config, p.Settings, clients, list, p.Registry)
	if err != nil {
		return err
	}
	hasher, err := audit.NewHasher(p.Settings.Audit.HashKeyFile)
	if err != nil {
		return fmt.Errorf("portcullis.audit: %w", err)
	}
	server, err := service.New(p.Settings.Own.Settings, inquirer, trail, hasher, telemetry.Component(p.Log, "authenticate"), p.Registry)
	if err != nil {
		return err
	}
	p.Group.Add("authenticate", server.Run)
	policy := meshrpc.Policy{tokenauthv1.TokenAuthService_ServiceDesc.ServiceName: {"lifecycle"}}
	return p.ServeMesh(ctx, p.Settings.Own.ServerConfig, p.Settings.Mesh, policy, func(s meshrpc.Registrar) {
		tokenauthv1.RegisterTokenAuthServiceServer(s, server)
	})
}

// connectNATS makes the connection that the allowlist and the audit stream need; nil when neither does. It is no part of
// readiness: the list is good for a while without it, and no decision waits for the stream.
func connectNATS(p *command.Parts[*Settings]) (*natsconn.Conn, error) {
	operator := p.Config.Kubernetes.WorkspaceMode == driverconf.ModeOperator
	if !operator && (!p.Settings.Audit.Publish || !p.Settings.NATS.Configured()) {
		return nil, nil
	}
	return p.ConnectNATSUnchecked(p.Settings.NATS)
}

// followList adds the reader of the allowlist in operator mode; nil in the others.
func followList(p *command.Parts[*Settings], conn *natsconn.Conn) (inquiry.List, error) {
	if p.Config.Kubernetes.WorkspaceMode != driverconf.ModeOperator {
		return nil, nil
	}
	cfg := allowkv.ReaderConfig{GatewayID: p.Config.Kubernetes.GatewayID, Name: Name, Config: p.Settings.Allowlist}
	reader, err := allowkv.NewReader(cfg, conn, telemetry.Component(p.Log, allowlist.Section), p.Registry)
	if err != nil {
		return nil, err
	}
	p.Group.Add(allowlist.Section, reader.Run)
	return reader, p.Checks.AddReadiness(allowlist.Section, command.ListReady(reader, conn))
}

func openTrail(p *command.Parts[*Settings], conn *natsconn.Conn) (*audit.Trail, error) {
	var to audit.Connection // not a nil *natsconn.Conn
	if conn != nil {
		to = conn
	}
	origin := audit.Origin{Daemon: Name, GatewayID: p.Config.Kubernetes.GatewayID}
	trail, err := audit.New(p.Settings.Audit, origin, to, telemetry.Component(p.Log, audit.Section), p.Registry)
	if err != nil {
		return nil, err
	}
	p.Group.Add(audit.Section, trail.Run)
	return trail, nil
}

// newInquirer makes what decides, for the daemon and for the explain command alike.
func newInquirer(cfg *driverconf.Config, own *Settings, clients *kubeclient.Clients, list inquiry.List, reg prometheus.Registerer) (*inquiry.Inquirer, error) {
	cluster, err := lookups.New(clients.Calls, own.Own.LookupTimeout.Std(), reg)
	if err != nil {
		return nil, err
	}
	return inquiry.New(authenticate.PolicyOf(&cfg.Kubernetes), cluster, list, reg)
}
