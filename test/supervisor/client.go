package supervisor

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc"
	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// callLimit ends a call that has no other end.
const callLimit = 3 * time.Minute

// Client makes calls as lifecycle does. Safe for concurrent use.
type Client struct {
	Calls supervisorv1.SupervisorServiceClient
	site  *Site
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
	return &Client{Calls: supervisorv1.NewSupervisorServiceClient(conn), site: s}
}

// Ref names the Box in requests.
func (b *Box) Ref() *supervisorv1.SandboxRef {
	return &supervisorv1.SandboxRef{GatewayId: b.site.GatewayID, Namespace: b.Namespace, Name: b.Name, Uid: b.UID, SandboxId: b.ID}
}

// Proto is the run in requests.
func (r Run) Proto() *supervisorv1.Run {
	return &supervisorv1.Run{GenerationId: r.Generation, SessionId: r.Session, AuthEpoch: r.Epoch}
}

// Identity is what the gateway has stored of a Box: Restart looks at the namespace and the Sandbox only (contract 6.2, 2.13).
func (b *Box) Identity() string {
	return "kubernetes://" + b.Namespace + "/" + b.UID + "/" + "00000000-0000-4000-8000-000000000000"
}

// Provision asks for the set of a new sandbox.
func (c *Client) Provision(ctx context.Context, b *Box, run Run) (*supervisorv1.ProvisionResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return c.Calls.Provision(ctx, &supervisorv1.ProvisionRequest{
		Sandbox: b.Ref(), Run: run.Proto(), LaunchAuthentication: c.site.Bundle(b, run), RequestId: "test",
	})
}

// Restart asks for a new run.
func (c *Client) Restart(ctx context.Context, b *Box, run Run) (*supervisorv1.RestartResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return c.Calls.Restart(ctx, &supervisorv1.RestartRequest{
		Sandbox: b.Ref(), Run: run.Proto(), LaunchAuthentication: c.site.Bundle(b, run), ExpectedRuntimeIdentity: b.Identity(), RequestId: "test",
	})
}

// Release asks for a stop.
func (c *Client) Release(ctx context.Context, b *Box, run Run) (*supervisorv1.ReleaseResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return c.Calls.Release(ctx, &supervisorv1.ReleaseRequest{Sandbox: b.Ref(), Run: run.Proto(), RequestId: "test"})
}

// Remove asks for the end of the set.
func (c *Client) Remove(ctx context.Context, b *Box, run Run) (*supervisorv1.RemoveResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return c.Calls.Remove(ctx, &supervisorv1.RemoveRequest{Sandbox: b.Ref(), Run: run.Proto(), RequestId: "test"})
}

// Status asks what the set is like.
func (c *Client) Status(ctx context.Context, b *Box) (*supervisorv1.CompanionStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	resp, err := c.Calls.Status(ctx, &supervisorv1.StatusRequest{Sandbox: b.Ref()})
	return resp.GetStatus(), err
}

// Insist repeats a call as lifecycle does as long as the answer is that it may be: until it is answered otherwise, or ctx ends.
func Insist(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		decision, explained := verdict.FromError(err)
		if err == nil || explained && !decision.Retryable() {
			return err
		}
		select {
		case <-time.After(250 * time.Millisecond): // as a patient caller does
		case <-ctx.Done():
			return err
		}
	}
}

// Await asks until there is nothing wrong, or ctx ends, and answers with what was wrong last.
func Await(ctx context.Context, wrong func() error) error {
	for {
		err := wrong()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
