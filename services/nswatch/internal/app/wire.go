package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/filesource"
	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/labelsource"
	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/selection"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/embedded"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Daemon describes the program.
func Daemon() command.Daemon[*Settings] {
	return command.Daemon[*Settings]{
		Name:     Name,
		Short:    "Publish which namespaces are trusted",
		Settings: defaults,
		Validate: validate,
		Wire:     wire,
		Commands: commands,
	}
}

func wire(ctx context.Context, p *command.Parts[*Settings]) error {
	signer, err := readKeys(p.Settings)
	if err != nil {
		return err
	}
	at, err := findPlace(p.Settings, p.Config.Kubernetes.GatewayID, p.LookupEnv, leadership.MountedNamespace)
	if err != nil {
		return err
	}
	release := func() {}
	if p.Settings.NATS.Embedded {
		// Before the connection, so that a stop ends the connection first.
		server, err := hostNATS(ctx, p)
		if err != nil {
			return err
		}
		release = server.Release
	}
	conn, clients, err := connect(p)
	if err == nil {
		err = publish(p, at, signer, conn, clients)
	}
	if err != nil {
		release()
	}
	return err
}

// hostNATS makes the embedded server and claims its store and address, so that a start ends here if
// they cannot be had.
func hostNATS(ctx context.Context, p *command.Parts[*Settings]) (*embedded.Server, error) {
	server, err := embedded.New(embedded.FromSettings(p.Settings.NATS), telemetry.Component(p.Log, "nats-server"))
	if err != nil {
		return nil, err
	}
	if err := p.Checks.AddReadiness("nats-server", server.Ready); err != nil {
		return nil, err
	}
	if err := server.Claim(ctx); err != nil {
		return nil, err
	}
	p.Group.Add("nats-server", server.Run)
	return server, nil
}

// connect makes the connections, whose readiness every replica tells, whether it leads or not (bug corpus E07).
func connect(p *command.Parts[*Settings]) (*natsconn.Conn, *kubeclient.Clients, error) {
	conn, err := p.ConnectNATS(p.Settings.NATS)
	if err != nil {
		return nil, nil, err
	}
	if p.Settings.NATS.Embedded {
		log := telemetry.Component(p.Log, "bootstrap")
		p.Group.Add("bootstrap", bootstrapEmbedded(conn, bucket(), log))
		p.Group.Add("bootstrap audit", bootstrapEmbedded(conn, stream(p.Settings.Audit.Config), log))
	}
	if err := p.Checks.AddReadiness("bucket", bucketReady(conn, p.Config.Kubernetes.GatewayID)); err != nil {
		return nil, nil, err
	}
	clients, err := p.ConnectKubernetes(p.Settings.Kubernetes)
	return conn, clients, err
}

// publish makes what the holder of the Lease runs, and the election.
func publish(p *command.Parts[*Settings], at place, signer *allowlist.Signer, conn *natsconn.Conn, clients *kubeclient.Clients) error {
	gateway, clock := p.Config.Kubernetes.GatewayID, allowkv.NewClock()
	source, err := newSource(p, at, clients, clock)
	if err != nil {
		return err
	}
	cfg := allowkv.PublisherConfig{
		GatewayID: gateway, Name: at.identity, Settings: p.Settings.Allowlist.Settings, PublicKeysFile: p.Settings.Allowlist.PublicKeysFile,
	}
	publisher, err := allowkv.NewPublisher(cfg, conn, signer, clock, telemetry.Component(p.Log, "publisher"), p.Registry)
	if err != nil {
		return err
	}
	lead := func(ctx context.Context, released <-chan struct{}) error {
		return ending(publisher.Lead(ctx, source, released))
	}
	election, err := leadership.New(at.lease, Name, at.identity, clients.Calls.Typed.CoordinationV1(), lead, telemetry.Component(p.Log, "leadership"), p.Registry)
	if err != nil {
		return err
	}
	p.Group.Add("leadership", election.Run)
	described := source.Describe()
	p.Log.Info().Str(keyGateway, gateway).Stringer(keySource, described.Kind).Str(keySelector, described.Selector).Str(keyPath, described.Path).
		Float64(keyRevocation, telemetry.DurationMS(p.Settings.Allowlist.Revocation())).Str(keySigner, string(signer.Public().ID())).
		Msg("publishes the allowlist; a namespace that leaves the source is refused after revocation_ms at the latest")
	return nil
}

// newSource makes the one source that the stock settings name.
func newSource(p *command.Parts[*Settings], at place, clients *kubeclient.Clients, clock allowkv.Clock) (allowkv.Source, error) {
	k, s := &p.Config.Kubernetes, &p.Settings.Allowlist
	chosen, err := selection.New(at.refusals, telemetry.Component(p.Log, "selection"), p.Registry)
	if err != nil {
		return nil, err
	}
	switch {
	case k.OperatorNamespaceLabel != nil:
		cfg := labelsource.Config{Selector: *k.OperatorNamespaceLabel, LabelRelist: s.LabelRelist.Std(), SourceMaxAge: s.SourceMaxAge.Std()}
		return labelsource.New(cfg, clients, chosen, clock, telemetry.Component(p.Log, "labelsource"), p.Registry)
	case k.OperatorNamespaceFile != nil:
		cfg := filesource.Config{Path: *k.OperatorNamespaceFile, Poll: s.FilePoll.Std(), ReadTimeout: min(filesource.DefaultReadTimeout, s.SourceMaxAge.Std()/2)}
		return filesource.New(cfg, chosen, clock, telemetry.Component(p.Log, "filesource"), p.Registry)
	default:
		return nil, fmt.Errorf("neither %s nor %s is set", keyLabel, keyFile)
	}
}

// ending is why a term ended, as an error; nil when it was told to.
func ending(end allowlist.End, err error) error {
	switch {
	case err != nil:
		return err
	case end.Cause == allowlist.EndStopped, end.Cause == allowlist.EndLeaseLost:
		return nil
	case end.Err == nil:
		return errors.New(end.Cause.String())
	default:
		return fmt.Errorf("%s: %w", end.Cause, end.Err)
	}
}
