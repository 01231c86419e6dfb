package runtime

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// maxStreams is how many operations may be under way on a connection.
const maxStreams = 256

// Config is what a Runtime needs.
type Config struct {
	BoundaryFile string           // boundary.json; removed, with the leaf's files, once it is read
	Now          func() time.Time // the clock that bearers are judged by
	Output       io.Writer        // takes what the main process writes
	Log          zerolog.Logger
	Listener     net.Listener // when set, listens instead of the file's address; Run closes it
}

// Runtime serves one boundary.
type Runtime struct {
	cfg       Config
	material  material
	ownership ownership
	processes *processes
	forker    *forker
	agent     agent
	conns     atomic.Uint64
}

// New reads the bootstrap files and removes them, if their mount allows it. It starts nothing.
func New(cfg Config) (*Runtime, error) {
	m, err := load(cfg.BoundaryFile)
	if err != nil {
		return nil, err
	}
	if err := m.remove(); err != nil {
		// A mount that may not be written to leaves nothing to do about it.
		cfg.Log.Warn().Err(err).Msg("the command will be able to read the bootstrap files")
	}
	f := newForker()
	return &Runtime{cfg: cfg, material: m, processes: newProcesses(f), forker: f}, nil
}

// Run serves until ctx ends; then everything that it started is killed and gone before it returns.
func (r *Runtime) Run(ctx context.Context) error {
	listener := r.cfg.Listener
	if listener == nil {
		var (
			lc  net.ListenConfig
			err error
		)
		if listener, err = lc.Listen(ctx, "tcp", r.material.file.Listener.Address); err != nil {
			return fmt.Errorf("serve the boundary: %w", err)
		}
	}
	server := r.server()
	forks, endForks := context.WithCancel(context.WithoutCancel(ctx))
	defer func() { <-r.forker.gone }()
	defer endForks()
	go r.forker.run(forks)

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	r.cfg.Log.Info().Str("address", listener.Addr().String()).Str("boundary_id", r.material.file.BoundaryID).Msg("serving the boundary")
	var err error
	select {
	case err = <-served:
		err = fmt.Errorf("serve the boundary: %w", err)
		served <- nil
	case <-ctx.Done():
	}
	r.processes.end()
	server.Stop()
	<-served
	return err
}

func (r *Runtime) server() *grpc.Server {
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{r.material.chain}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		})),
		grpc.ForceServerCodec(boundary.Codec{}),
		grpc.MaxRecvMsgSize(boundary.MaxChunk), grpc.MaxSendMsgSize(boundary.MaxChunk),
		grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.StatsHandler(numbering{&r.conns}), grpc.WaitForHandlers(true),
	)
	boundary.Register(server, r.exchange)
	return server
}

// numbering numbers the connections, so that an operation can be told from that of another.
type numbering struct{ last *atomic.Uint64 }

type connKey struct{}

// TagConn gives the connection its number.
func (n numbering) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connKey{}, n.last.Add(1))
}

// HandleConn, TagRPC and HandleRPC do nothing.
func (numbering) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC does nothing.
func (numbering) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC does nothing.
func (numbering) HandleRPC(context.Context, stats.RPCStats) {}

// connOf returns the number of the connection, 0 when there is none.
func connOf(ctx context.Context) uint64 {
	n, _ := ctx.Value(connKey{}).(uint64)
	return n
}
