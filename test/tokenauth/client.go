package tokenauth

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/status"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// Client makes the call as lifecycle does. Safe for concurrent use.
type Client struct {
	calls   tokenauthv1.TokenAuthServiceClient
	gateway string
	ledger  *Ledger
}

// Client is lifecycle's side of the mesh to a process.
func (s *Site) Client(p *program.Process) *Client {
	s.t.Helper()
	files := meshtest.NewFiles(s.t, s.ca, "lifecycle")
	cfg := meshrpc.DefaultConfig()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.Cert, files.Key, files.CA
	mesh, err := meshrpc.New(cfg, meshrpc.Deps{Daemon: "lifecycle", Log: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	s.must("join the mesh", err)
	conn, err := mesh.NewClient(meshrpc.Target{Daemon: daemon, Address: p.Logged("serving the mesh", "address")})
	s.must("join the mesh", err)
	s.t.Cleanup(func() { _ = conn.Close() })
	return &Client{calls: tokenauthv1.NewTokenAuthServiceClient(conn), gateway: s.GatewayID}
}

// Authenticate asks who the bearer of a token is. The call has a limit of half a minute.
func (c *Client) Authenticate(ctx context.Context, token string) (*tokenauthv1.AuthenticateResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	id := c.ledger.open()
	resp, err := c.calls.Authenticate(ctx, &tokenauthv1.AuthenticateRequest{Credential: token, GatewayId: c.gateway, RequestId: id})
	c.ledger.enter(id, err)
	return resp, err
}

// Remember has the client keep every answer that it gets from now on.
func (c *Client) Remember() *Ledger {
	c.ledger = &Ledger{answers: map[string]Answer{}}
	return c.ledger
}

// Answer is what a caller was told.
type Answer struct {
	Granted bool
	Reason  verdict.Reason
	Code    string
}

// Ledger holds what was answered to each request. The nil Ledger holds nothing. Safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	opened  int
	answers map[string]Answer
}

// open begins an entry and returns the id of its request.
func (l *Ledger) open() string {
	if l == nil {
		return "test"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	return fmt.Sprintf("test-%06d", l.opened)
}

func (l *Ledger) enter(id string, err error) {
	if l == nil {
		return
	}
	decision, explained := verdict.FromError(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || explained { // without an explanation it was not tokenauth that answered
		l.answers[id] = Answer{Granted: err == nil, Reason: decision.Reason, Code: status.Code(err).String()}
	}
}

// Answers are those so far, by request.
func (l *Ledger) Answers() map[string]Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]Answer, len(l.answers))
	for id, answer := range l.answers {
		all[id] = answer
	}
	return all
}
