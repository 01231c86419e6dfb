package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
	"github.com/portcullis-mesh/portcullis/test/gateway/settings"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// front is the gateway of a stage. Its records outlive it.
type front struct {
	stage     *Stage
	path, log string
	gateway   *gateway.Gateway // nil while it does not run
	dial      *grpc.ClientConn // as supervisors do
	lives     context.Context  // of what dials it
	ends      []func() error   // the last first
	sessions  sync.WaitGroup
}

// open starts a gateway on the records as they are, and waits for the handshake with the driver.
func (f *front) open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	stock, err := settings.Load(f.stage.site.Mesh.Settings(mesh.Lifecycle), "kubernetes")
	if err != nil {
		return err
	}
	records, err := record.Open(f.path, record.Options{Patience: patience, NoSync: true})
	if err != nil {
		return err
	}
	f.ends = append(f.ends, records.Close)
	log, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the gateway's log: %w", err)
	}
	f.ends = append(f.ends, log.Close)
	g, err := gateway.New(gateway.Config{
		Socket: f.stage.site.Mesh.Socket(), Policy: stock.Policy, GatewayID: stock.GatewayID, Log: zerolog.New(log),
		Timing: gateway.Timing{WatchReopen: 100 * time.Millisecond},
	}, records)
	if err != nil {
		return err
	}
	if err := f.serve(g); err != nil {
		return err
	}
	f.gateway = g
	return f.begin(ctx)
}

// serve lets supervisors reach it.
func (f *front) serve(g *gateway.Gateway) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for supervisors: %w", err)
	}
	server := grpc.NewServer(gateway.ServerOption()...)
	g.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	f.ends = append(f.ends, func() error {
		server.Stop()
		return <-served
	})
	f.dial, err = grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return fmt.Errorf("dial the gateway: %w", err)
	}
	f.ends = append(f.ends, f.dial.Close)
	lives, cancel := context.WithCancel(context.Background())
	f.lives = lives
	f.ends = append(f.ends, func() error {
		cancel()
		f.sessions.Wait()
		return nil
	})
	return nil
}

func (f *front) begin(ctx context.Context) error {
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var failure error
	go func() {
		defer close(ended)
		failure = f.gateway.Run(running)
	}()
	f.ends = append(f.ends, func() error {
		stop()
		<-ended
		return failure
	})
	select {
	case <-f.gateway.Ready():
		return nil
	case <-ended:
		return errors.New("the gateway ended before it was ready")
	case <-ctx.Done():
		return fmt.Errorf("the gateway is not ready: %w", context.Cause(ctx))
	}
}

// close ends the gateway, if it runs.
func (f *front) close() error {
	var problems []error
	for i := len(f.ends) - 1; i >= 0; i-- {
		problems = append(problems, f.ends[i]())
	}
	f.ends, f.gateway, f.dial = nil, nil, nil
	return errors.Join(problems...)
}

// exchange is what a supervisor does with the token of its Pod.
func (f *front) exchange(ctx context.Context, bearer, id string) (string, error) {
	issued, err := session.Issue(bearing(ctx, bearer), f.dial, session.IssueRequest{SandboxID: id})
	return issued.Token, err
}

// attend opens a supervisor's session and says that it holds a runtime, which is not true. It lasts until the gateway ends it.
func (f *front) attend(token string) error {
	ctx, cancel := context.WithCancel(f.lives)
	client, err := session.Open(bearing(ctx, token), f.dial)
	if err == nil {
		err = client.Accepted()
	}
	if err == nil {
		err = client.Send(session.Up{Event: session.Confirmed, ProcessID: "main", Confirmation: &boundary.Confirmation{Generation: "g"}})
	}
	if err != nil {
		cancel()
		return err
	}
	f.sessions.Go(func() {
		defer cancel()
		for {
			if _, err := client.Receive(); err != nil {
				return // the run is over, or the gateway
			}
		}
	})
	return nil
}

func bearing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}
