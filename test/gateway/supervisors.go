package gateway

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// ServerOption returns what a server needs that supervisors dial; transport credentials are the caller's to add. Such a server
// fits no other service.
func ServerOption() []grpc.ServerOption { return gatewayside.ServerOption() }

// Register adds the supervisors' service. It may be called before Run; until Ready every exchange is UNAVAILABLE.
func (g *Gateway) Register(s *grpc.Server) { g.side.Register(s) }

// Session waits for the sandbox's supervisor, with a confirmed runtime.
func (g *Gateway) Session(ctx context.Context, id string) (*gatewayside.Session, error) {
	s, err := g.side.Await(ctx, id)
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return s, nil
}

// Exec runs a command in the sandbox to its end, through its supervisor. The error is a *boundary.Failure when the sandbox
// refused it.
func (g *Gateway) Exec(ctx context.Context, id string, command []string, stdin []byte) (gatewayside.Output, error) {
	s, err := g.Session(ctx, id)
	if err != nil {
		return gatewayside.Output{}, err
	}
	return s.Run(ctx, command, stdin)
}

// desk is the gateway as supervisors meet it.
type desk struct{ *Gateway }

// Exchange lets the driver say whose bearer it is, compares that with what is stored, and issues a token for the run
// (contract 6.6).
func (d desk) Exchange(ctx context.Context, bearer secret.Value, sandboxID string) (string, error) {
	token, err := d.exchange(ctx, bearer, sandboxID)
	row, unknown := d.records.Get(sandboxID)
	e := about(row, TokenIssued, "", "")
	if err != nil {
		e.Kind, e.Reason, e.Message = TokenRefused, status.Code(err).String(), status.Convert(err).Message()
	}
	if unknown != nil {
		e.SandboxID = sandboxID[:min(len(sandboxID), maxToldID)] // it may be anything
	}
	d.emit(e)
	return token, err
}

// maxToldID is how much of an id that no row has goes into an event.
const maxToldID = 64

func (d desk) exchange(ctx context.Context, bearer secret.Value, sandboxID string) (string, error) {
	l, leave, err := d.enter()
	if err != nil {
		return "", err
	}
	defer leave()
	ctx, done := during(ctx, l)
	defer done()
	if !l.driver.Capabilities().GetSupportsSandboxAuthentication() {
		return "", status.Error(codes.Unimplemented, "the driver does not authenticate sandboxes")
	}
	credential := bearer.Expose() // for the driver
	defer clear(credential)
	who, err := l.driver.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: string(credential)})
	if err != nil {
		return "", err
	}
	denied := status.Error(codes.PermissionDenied, "compute runtime identity does not match the sandbox")
	if sandboxID == "" || who.GetSandboxId() != sandboxID {
		return "", denied
	}
	row, err := d.records.Get(sandboxID)
	if err != nil {
		return "", status.Error(codes.PermissionDenied, "sandbox not found")
	}
	identity := row.Annotations[record.AnnotationIdentity]
	if identity == "" || identity != who.GetRuntimeIdentity() || row.Annotations[record.AnnotationDriver] != d.config.DriverName {
		return "", denied
	}
	token, _, err := d.authority.Load().GatewayToken(runOf(row))
	if err != nil {
		return "", status.Error(codes.Internal, err.Error())
	}
	defer token.Wipe()
	return string(token.Expose()), nil // into the answer
}

// Admit opens a session with a token of the present run.
func (d desk) Admit(_ context.Context, token secret.Value) (gatewayside.Admission, error) {
	raw := token.Expose() // to verify it
	defer clear(raw)
	run, err := d.authority.Load().VerifyGateway(raw)
	if err != nil {
		return gatewayside.Admission{}, status.Errorf(codes.Unauthenticated, "session token: %v", err)
	}
	row, err := d.records.Get(run.SandboxID)
	if err != nil {
		return gatewayside.Admission{}, status.Error(codes.Unauthenticated, "session token: its sandbox is gone")
	}
	present := runOf(row)
	present.Rotation = run.Rotation // which no token says
	if run != present {
		return gatewayside.Admission{}, status.Error(codes.Unauthenticated, "session token: of another run")
	}
	return gatewayside.Admission{SandboxID: row.ID, Changed: func(s *gatewayside.Session, over bool) { d.sessionChanged(row, s, over) }}, nil
}

// liveSession is a supervisor's session as the phase sees it.
type liveSession struct {
	session *gatewayside.Session
	run     record.Run
}

// connected reports whether the row's present run has a supervisor that holds a runtime.
func (g *Gateway) connected(row record.Row) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.sessions[row.ID]
	return ok && s.run == row.Run && s.session.Confirmation() != nil
}

// sessionChanged takes the news of a session.
func (g *Gateway) sessionChanged(row record.Row, s *gatewayside.Session, over bool) {
	g.mu.Lock()
	former, known := g.sessions[row.ID]
	mine := known && former.session == s
	switch {
	case over && mine:
		delete(g.sessions, row.ID)
	case !over && !mine:
		g.sessions[row.ID] = liveSession{session: s, run: row.Run}
	}
	g.mu.Unlock()
	switch {
	case over && !mine: // a newer one took its place
		g.emit(about(row, SessionEnded, "Replaced", ""))
		return
	case over:
		g.emit(about(row, SessionEnded, "", ""))
	case !mine:
		g.emit(about(row, SessionOpened, "", ""))
		// A run that ended between admission and here dropped nothing.
		if now, err := g.records.Get(row.ID); err != nil || now.Run != row.Run {
			s.Drop()
		}
	case s.MainExit() != nil:
		g.mainExited(row, *s.MainExit())
		return
	case s.Confirmation() != nil:
		g.emit(about(row, SessionConfirmed, "", ""))
	}
	g.heard(row, over)
}

// heard lets the row follow the session's news.
func (g *Gateway) heard(row record.Row, over bool) {
	_, err := g.change(row.ID, tries, func(now *record.Row) error {
		if now.Run != row.Run {
			return errUnchanged
		}
		before := now.Phase
		g.judge(now, now.Backend)
		if over && before == phase.Ready && now.Phase == phase.Provisioning {
			now.Conditions = phase.With(now.Conditions, phase.DisconnectedCondition())
		}
		return nil
	})
	if err != nil {
		g.config.Log.Debug().Err(err).Str("sandbox", row.ID).Msg("a session's news came to nothing")
	}
}

// mainExited moves a running row to Completed or Error, where it stays (contract 2.11, 8.3).
func (g *Gateway) mainExited(row record.Row, exit boundary.Exit) {
	how := fmt.Sprintf("the main process exited with code %d", exit.Code)
	if exit.Signal != 0 {
		how = fmt.Sprintf("the main process was ended by signal %d", exit.Signal)
	}
	g.emit(about(row, MainProcessExited, "", how))
	_, err := g.change(row.ID, tries, func(now *record.Row) error {
		running := now.Phase == phase.Provisioning || now.Phase == phase.Ready || now.Phase == phase.Starting
		if now.Run != row.Run || !running {
			return errUnchanged
		}
		next := record.State{Phase: phase.Completed, Message: how, Conditions: now.Conditions, Backend: now.Backend}
		if exit.Code != 0 || exit.Signal != 0 {
			next.Phase, next.Cause = phase.Error, phase.MainProcessFailed
		}
		now.State, now.Before = next, nil
		return nil
	})
	if err != nil {
		g.config.Log.Debug().Err(err).Str("sandbox", row.ID).Msg("a main process's end came to nothing")
	}
}
