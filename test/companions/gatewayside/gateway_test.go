package gatewayside_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a gateway that accepts the bearer "good" for the sandbox "a", and connects to it.
func serve(t *testing.T) (*gatewayside.Gateway, *grpc.ClientConn) {
	t.Helper()
	g := gatewayside.New(func(_ context.Context, bearer secret.Value, sandboxID string) error {
		if bearer.Equal(secret.New([]byte("good"))) && sandboxID == "a" {
			return nil
		}
		return status.Error(codes.PermissionDenied, "no")
	})
	return g, dial(t, g)
}

// dial serves g and connects to it.
func dial(t *testing.T, g *gatewayside.Gateway) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(gatewayside.ServerOption()...)
	g.Register(server)
	l := companionstest.Listen(t, companionstest.Address())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	cc, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cc.Close()
		server.Stop()
		<-served
	})
	return cc
}

func with(ctx context.Context, authorization string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
}

func TestExchange(t *testing.T) {
	t.Parallel()
	_, cc := serve(t)
	for name, tc := range map[string]struct {
		authorization, sandbox string
		code                   codes.Code
	}{
		"good":            {"Bearer good", "a", codes.OK},
		"another bearer":  {"Bearer bad", "a", codes.PermissionDenied},
		"another sandbox": {"Bearer good", "b", codes.PermissionDenied},
		"no sandbox":      {"Bearer good", "", codes.PermissionDenied},
		"no bearer":       {"Bearer ", "a", codes.Unauthenticated},
		"another scheme":  {"Basic good", "a", codes.Unauthenticated},
	} {
		issued, err := session.Issue(with(companionstest.Limit(t), tc.authorization), cc, session.IssueRequest{SandboxID: tc.sandbox})
		if status.Code(err) != tc.code || (issued.Token != "") != (tc.code == codes.OK) {
			t.Errorf("%s: token %q, %v", name, issued.Token, err)
		}
	}
}

// open opens a session with a token and returns what became of it.
func open(ctx context.Context, cc *grpc.ClientConn, token string) (session.Client, error) {
	c, err := session.Open(with(ctx, "Bearer "+token), cc)
	if err != nil {
		return c, err
	}
	return c, c.Accepted()
}

func TestTokenOpensOneSession(t *testing.T) {
	t.Parallel()
	g, cc := serve(t)
	ctx, cancel := context.WithCancel(companionstest.Limit(t))
	defer cancel()
	if _, err := open(ctx, cc, "guessed"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a token that nobody issued: %v", err)
	}
	issued, err := session.Issue(with(ctx, "Bearer good"), cc, session.IssueRequest{SandboxID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := open(ctx, cc, issued.Token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(ctx, cc, issued.Token); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a token used before: %v", err)
	}
	s, err := g.AwaitConnected(ctx, "a")
	if err != nil || s.Confirmation() != nil || s.MainProcess() != "" {
		t.Fatalf("%v, confirmed from the start", err)
	}
	if err := first.Send(session.Up{Event: session.Confirmed, ProcessID: "main", Confirmation: &boundary.Confirmation{Generation: "g"}}); err != nil {
		t.Fatal(err)
	}
	if s, err = g.Await(ctx, "a"); err != nil || s.MainProcess() != "main" || s.Confirmation().Generation != "g" {
		t.Fatalf("%v, %v", s, err)
	}
	// What was under way when the session ends fails.
	p, err := s.Start([]string{"x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := first.Receive(); err != nil || m.Op != session.Exec || m.Command[0] != "x" {
		t.Fatalf("%+v, %v", m, err)
	}
	cancel()
	out, err := p.Wait(companionstest.Limit(t))
	if err == nil {
		t.Errorf("ended with %+v", out)
	}
	<-s.Over()
	if _, err := s.Start([]string{"x"}, nil); err == nil {
		t.Error("started in a session that is over")
	}
	short, stop := context.WithCancelCause(t.Context())
	stop(errors.New("enough"))
	if _, err := g.Await(short, "a"); err == nil {
		t.Error("a session that is over is given")
	}
}

// desk admits one token and keeps what it is told of sessions.
type desk struct{ told chan string }

func (d desk) Exchange(context.Context, secret.Value, string) (string, error) { return "mine", nil }

func (d desk) Admit(_ context.Context, token secret.Value) (gatewayside.Admission, error) {
	if !token.Equal(secret.New([]byte("mine"))) {
		return gatewayside.Admission{}, status.Error(codes.Unauthenticated, "not mine")
	}
	return gatewayside.Admission{SandboxID: "a", Changed: func(s *gatewayside.Session, over bool) {
		switch {
		case over:
			d.told <- "over"
		case s.MainExit() != nil:
			d.told <- "exited"
		case s.Confirmation() != nil:
			d.told <- "confirmed"
		default:
			d.told <- "begun"
		}
	}}, nil
}

// TestDesk: tokens of the caller's own open as many sessions as it likes, it is told of each in order, and it can end them.
func TestDesk(t *testing.T) {
	t.Parallel()
	d := desk{told: make(chan string, 16)}
	g := gatewayside.NewWithDesk(d)
	cc := dial(t, g)
	ctx := companionstest.Limit(t)
	if issued, err := session.Issue(with(ctx, "Bearer x"), cc, session.IssueRequest{SandboxID: "a"}); err != nil || issued.Token != "mine" {
		t.Errorf("%q, %v", issued.Token, err)
	}
	if _, err := open(ctx, cc, "yours"); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	for range 2 {
		client, err := open(ctx, cc, "mine")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []session.Up{
			{Event: session.Confirmed, Confirmation: &boundary.Confirmation{}}, {Event: session.MainExited, Exit: &boundary.Exit{Code: 1}},
		} {
			if err := client.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"begun", "confirmed", "exited"} {
			if got := <-d.told; got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		g.Drop("a")
		g.Drop("nobody")
		if _, err := client.Receive(); status.Code(err) != codes.Unavailable {
			t.Errorf("dropped, and received %v", err)
		}
		if got := <-d.told; got != "over" {
			t.Errorf("told %q", got)
		}
	}
}
