package gatewayside

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/companions/session"
)

// Authenticate judges the projected token of who says to be the supervisor of a sandbox. Its error,
// a gRPC status, refuses the exchange.
type Authenticate func(ctx context.Context, bearer secret.Value, sandboxID string) error

// Desk says who gets a token and what a token opens. Its errors are gRPC statuses.
type Desk interface {
	// Exchange judges a projected token and issues one for a session with the sandbox.
	Exchange(ctx context.Context, bearer secret.Value, sandboxID string) (token string, err error)
	// Admit says whose session a token opens.
	Admit(ctx context.Context, token secret.Value) (Admission, error)
}

// Admission is a session that may begin.
type Admission struct {
	SandboxID string
	// Changed, if not nil, is called when the session has begun, when its supervisor has confirmed a runtime
	// or tells that the main process ended, and, with over, when it has ended. The calls are in order.
	Changed func(s *Session, over bool)
}

// Gateway serves the supervisors' side of a gateway.
type Gateway struct {
	desk Desk

	mu       sync.Mutex
	sessions map[string]*Session
	changed  chan struct{} // closed at the next change of sessions or of one's confirmation
}

// New makes a Gateway whose tokens are random and open one session each.
func New(authenticate Authenticate) *Gateway {
	return NewWithDesk(&once{authenticate: authenticate, issued: map[string]string{}})
}

// NewWithDesk makes a Gateway with tokens of the caller's own.
func NewWithDesk(desk Desk) *Gateway {
	return &Gateway{desk: desk, sessions: map[string]*Session{}, changed: make(chan struct{})}
}

// ServerOption returns what the server needs that a Gateway is registered on. It fits no other service.
func ServerOption() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodec(session.Codec{}), grpc.MaxRecvMsgSize(session.MaxMessage), grpc.MaxSendMsgSize(session.MaxMessage),
		grpc.WaitForHandlers(true),
	}
}

// Register adds the service to a server.
func (g *Gateway) Register(s *grpc.Server) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: session.Service, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "IssueSandboxToken",
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var req session.IssueRequest
				if err := decode(&req); err != nil {
					return nil, err
				}
				return g.issue(ctx, req)
			},
		}},
		Streams: []grpc.StreamDesc{{
			StreamName: "Session", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return g.serve(stream) },
		}},
	}, nil)
}

func (g *Gateway) issue(ctx context.Context, req session.IssueRequest) (*session.Issued, error) {
	bearer, err := bearerOf(ctx)
	if err != nil {
		return nil, err
	}
	if req.SandboxID == "" {
		return nil, status.Error(codes.PermissionDenied, "sandbox_id: empty")
	}
	token, err := g.desk.Exchange(ctx, secret.New([]byte(bearer)), req.SandboxID)
	if err != nil {
		return nil, err
	}
	return &session.Issued{Token: token}, nil
}

func (g *Gateway) serve(stream grpc.ServerStream) error {
	token, err := bearerOf(stream.Context())
	if err != nil {
		return err
	}
	admission, err := g.desk.Admit(stream.Context(), secret.New([]byte(token)))
	if err != nil {
		return err
	}
	tell := func(*Session, bool) {}
	if admission.Changed != nil {
		tell = admission.Changed
	}
	var s *Session
	s = newSession(stream, func() {
		g.change()
		tell(s, false)
	})
	if err := s.send(session.Down{Op: session.Welcome}); err != nil {
		return err
	}
	g.mu.Lock()
	g.sessions[admission.SandboxID] = s
	g.mu.Unlock()
	g.change()
	tell(s, false)
	defer func() {
		// Who sees that it is over must not be given it again.
		g.mu.Lock()
		if g.sessions[admission.SandboxID] == s {
			delete(g.sessions, admission.SandboxID)
		}
		g.mu.Unlock()
		s.finish()
		g.change()
		tell(s, true)
	}()
	return s.receive()
}

// Drop ends the sandbox's session, if there is one; its supervisor sees UNAVAILABLE.
func (g *Gateway) Drop(sandboxID string) {
	g.mu.Lock()
	s := g.sessions[sandboxID]
	g.mu.Unlock()
	if s != nil {
		s.Drop()
	}
}

func (g *Gateway) change() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.changed)
	g.changed = make(chan struct{})
}

// Await returns the sandbox's session once its supervisor has confirmed a runtime.
func (g *Gateway) Await(ctx context.Context, sandboxID string) (*Session, error) {
	return g.await(ctx, sandboxID, func(s *Session) bool { return s != nil && s.Confirmation() != nil })
}

// AwaitConnected returns the sandbox's session once there is one, with or without a runtime.
func (g *Gateway) AwaitConnected(ctx context.Context, sandboxID string) (*Session, error) {
	return g.await(ctx, sandboxID, func(s *Session) bool { return s != nil })
}

func (g *Gateway) await(ctx context.Context, sandboxID string, enough func(*Session) bool) (*Session, error) {
	for {
		g.mu.Lock()
		s, changed := g.sessions[sandboxID], g.changed
		g.mu.Unlock()
		if enough(s) {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func bearerOf(ctx context.Context) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if given := md.Get("authorization"); len(given) == 1 {
		if token, ok := strings.CutPrefix(given[0], "Bearer "); ok && token != "" {
			return token, nil
		}
	}
	return "", status.Error(codes.Unauthenticated, "authorization: not one bearer")
}
