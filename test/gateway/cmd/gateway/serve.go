package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/portcullis-mesh/portcullis/proto/contract"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/control"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
	"github.com/portcullis-mesh/portcullis/test/gateway/settings"
)

// options are the flags of run.
type options struct {
	config, driver, socket, prefix  string
	records, control, listen        string
	certificate, key                string
	sweep, provisioning, reconnects time.Duration
}

func serveCommand(stderr io.Writer) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "run", Short: "run the gateway until it is asked to stop", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), o, stderr) },
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "stock settings file; without one every setting has its default")
	f.StringVar(&o.driver, "compute-driver", "kubernetes", "configured name of the driver")
	f.StringVar(&o.socket, "compute-driver-socket", "", "the driver's socket, instead of the table's socket_path")
	f.StringVar(&o.prefix, "prefix", string(contract.OpenShell), "first part of the service's name")
	f.StringVar(&o.records, "records", "", "file of the records, made when there is none")
	f.StringVar(&o.control, "control", "", "socket for the other commands; none without it")
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "address that supervisors dial")
	f.StringVar(&o.certificate, "tls-cert", "", "certificate of that address; plain text without it")
	f.StringVar(&o.key, "tls-key", "", "its key")
	f.DurationVar(&o.sweep, "sweep", 0, "interval of the sweep, instead of the contract's")
	f.DurationVar(&o.provisioning, "provisioning", 0, "window of a create or start, instead of the contract's")
	f.DurationVar(&o.reconnects, "connect-deadline", 0, "how long to try to reach the driver, instead of the contract's")
	_ = c.MarkFlagRequired("records") // it exists
	return c
}

// serve wires the gateway: records, supervisors' address, control socket, and Run.
func serve(ctx context.Context, o options, stderr io.Writer) error {
	log := zerolog.New(stderr).With().Timestamp().Logger()
	config, err := configure(o)
	if err != nil {
		return err
	}
	config.Log = log
	store, err := record.Open(o.records, record.Options{Patience: time.Second})
	if err != nil {
		return err
	}
	defer func() {
		if err := store.Close(); err != nil {
			log.Error().Err(err).Msg("close the records")
		}
	}()
	g, err := gateway.New(config, store)
	if err != nil {
		return err
	}
	server, err := supervisors(o)
	if err != nil {
		return err
	}
	g.Register(server)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen for supervisors: %w", err)
	}
	log.Info().Stringer("address", l.Addr()).Msg("supervisors may come")

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		work sync.WaitGroup
		ends [3]error
	)
	begin := func(i int, part func() error) {
		work.Go(func() {
			defer stop() // one part that ends ends all
			ends[i] = part()
		})
	}
	begin(0, func() error { return g.Run(ctx) })
	begin(1, func() error { return server.Serve(l) })
	if o.control != "" {
		begin(2, func() error { return control.Serve(ctx, g, o.control) })
	}
	<-ctx.Done()
	server.Stop()
	work.Wait()
	return errors.Join(ends[:]...)
}

func configure(o options) (gateway.Config, error) {
	table, err := settings.Parse(nil, o.driver)
	if err == nil && o.config != "" {
		table, err = settings.Load(o.config, o.driver)
	}
	if err != nil {
		return gateway.Config{}, err
	}
	if o.socket != "" {
		table.Socket = o.socket
	}
	prefix, err := contract.ParsePrefix(o.prefix)
	if err != nil {
		return gateway.Config{}, fmt.Errorf("--prefix: %w", err)
	}
	return gateway.Config{
		Socket: table.Socket, DriverName: table.Name, Prefix: prefix, Policy: table.Policy, GatewayID: table.GatewayID,
		Timing: gateway.Timing{Sweep: o.sweep, Provisioning: o.provisioning, ConnectDeadline: o.reconnects},
	}, nil
}

func supervisors(o options) (*grpc.Server, error) {
	opts := gateway.ServerOption()
	if o.certificate != "" || o.key != "" {
		creds, err := credentials.NewServerTLSFromFile(o.certificate, o.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		opts = append(opts, grpc.Creds(creds))
	}
	return grpc.NewServer(opts...), nil
}
