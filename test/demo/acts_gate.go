package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// forbid is the fourth act.
func (w *World) forbid(ctx context.Context, t *Timeline) error {
	if err := w.mark(ctx, false); err != nil {
		return err
	}
	t.Note("the platform team takes the label away", "")
	err := t.Check("from the label to the first no", func() (string, error) {
		_, err := w.refused(ctx, codes.PermissionDenied, "not_listed")
		return "asked through the gateway", err
	})
	if err != nil {
		return err
	}
	if err := t.Check("a new sandbox is refused, nothing is made", func() (string, error) { return w.refuseCreate(ctx, "too-late", "not_listed") }); err != nil {
		return err
	}
	if err := t.Check("the signed list does not have it", func() (string, error) { return w.list(ctx, 0) }); err != nil {
		return err
	}
	if err := t.Check("a new token exchange is refused", func() (string, error) { return w.refuseToken(ctx) }); err != nil {
		return err
	}
	return t.Check("the sandbox that runs is still there", func() (string, error) {
		s, err := w.gateway.Get(w.box)
		if err != nil {
			return "", err
		}
		if s.Phase == phase.Error || s.Phase == phase.Deleting || s.Phase == phase.Stopped {
			return "", fmt.Errorf("it is %s: %s", s.Phase, s.Message)
		}
		_, err = w.companions(ctx)
		return "its Pods, Secrets and fence are untouched", err
	})
}

// refuseToken ends the supervisor's session, so that it has to exchange its token again.
func (w *World) refuseToken(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, shortWait)
	defer cancel()
	events := w.gateway.Subscribe()
	defer events.Close()
	before := w.refusals(mesh.Tokenauth, "bearer refused")
	session, err := w.gateway.Session(ctx, w.box)
	if err != nil {
		return "", fmt.Errorf("the supervisor has no session to be ended: %w", err)
	}
	session.Drop()
	e, err := events.Await(ctx, func(e gateway.Event) bool {
		return e.SandboxID == w.box && (e.Kind == gateway.TokenIssued || e.Kind == gateway.TokenRefused)
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("its supervisor has not come again: %w", err)
	case e.Kind == gateway.TokenIssued:
		return "", errors.New("the supervisor got a new token")
	}
	entry, err := w.explained(ctx, mesh.Tokenauth, "bearer refused", before, "not_listed")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the supervisor's session was cut, and it came again\ngateway: %s: %s\ntokenauth: %v", e.Reason, e.Message, entry["explanation"]), nil
}

// life is the fifth act.
func (w *World) life(ctx context.Context, t *Timeline) error {
	quiet := w.narrate(t)
	defer quiet()
	if err := w.mark(ctx, true); err != nil {
		return err
	}
	t.Note("the platform team puts the label back", "")
	if err := t.Check("from the label to the first yes", func() (string, error) { return "", w.usable(ctx) }); err != nil {
		return err
	}
	if err := w.awaitReady(ctx, t, "its supervisor is let in again"); err != nil {
		return err
	}
	first, err := w.gateway.Get(w.box)
	if err != nil {
		return err
	}
	if err := t.Check("stop", func() (string, error) { return w.stop(ctx) }); err != nil {
		return err
	}
	if err := t.Check("start, answered by the driver", func() (string, error) {
		s, err := w.gateway.Start(ctx, w.box)
		if err == nil && s.RuntimeIdentity == first.RuntimeIdentity {
			err = errors.New("the new run has the identity of the old one")
		}
		return "a new runtime identity", err
	}); err != nil {
		return err
	}
	if err := w.awaitReady(ctx, t, "Ready again"); err != nil {
		return err
	}
	if w.site.Real {
		t.Note("the workspace outlives the run", "")
		if err := w.command(ctx, t, "kept", "cat", note); err != nil {
			return err
		}
	}
	return t.Check("delete, and nothing of it runs or is kept", func() (string, error) { return w.delete(ctx) })
}

func (w *World) stop(ctx context.Context) (string, error) {
	if err := w.gateway.Stop(ctx, w.box); err != nil {
		return "", err
	}
	if err := w.awaitNone(ctx, kindPods, kindSecrets); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, shortWait)
	defer cancel()
	return "no Pod and no Secret of it is left", w.caughtUp(ctx, phase.Stopped)
}

// delete asks for it, and waits until nothing is there any more but what is not the driver's to delete.
func (w *World) delete(ctx context.Context) (string, error) {
	if err := w.gateway.Delete(ctx, w.box); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, longWait)
	defer cancel()
	if err := w.gateway.AwaitRemoved(ctx, w.box); err != nil {
		return "", fmt.Errorf("the gateway has a row of it: %w", err)
	}
	kinds := []string{kindSandboxes, kindPods, kindServices, kindSecrets}
	return "no " + strings.Join(kinds, ", ") + " in its namespace. Its volume claim is left to Kubernetes' garbage collector (see the last step), " +
		"and the two policies stay: they are the namespace's fence.", w.awaitNone(ctx, kinds...)
}

// awaitNone waits until nothing of these kinds is in the workspace.
func (w *World) awaitNone(ctx context.Context, kinds ...string) error {
	ctx, cancel := context.WithTimeout(ctx, longWait)
	defer cancel()
	return eventually(ctx, func() error {
		left, err := w.left(ctx, kinds...)
		if err == nil && left != "" {
			err = errors.New("left are " + left)
		}
		return err
	})
}

// takeOver is the sixth act.
func (w *World) takeOver(ctx context.Context, t *Timeline) error {
	err := t.Check("a second nswatch stands by", func() (string, error) {
		if err := w.mesh.Run(ctx, mesh.Standby); err != nil {
			return "", err
		}
		w.note()
		return fmt.Sprintf("process %d, ready", w.mesh.Process(mesh.Standby).PID()), nil
	})
	if err != nil {
		return err
	}
	if err := t.Check("the gate is open", func() (string, error) { return "", w.gateway.EnsureWorkspace(ctx, w.team) }); err != nil {
		return err
	}
	pid := w.mesh.Process(mesh.Nswatch).PID()
	w.mesh.Kill(mesh.Nswatch)
	killed := time.Now()
	t.Note(fmt.Sprintf("kill -9 %d", pid), "the leader")
	err = t.Check("the gate closes", func() (string, error) {
		explanation, err := w.refused(ctx, codes.Unavailable, "stale")
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s after the kill; max_staleness is %s here, 15 s by default\nlifecycle: %s", span(time.Since(killed)), maxStaleness, explanation), nil
	})
	if err != nil {
		return err
	}
	if err := t.Check("a sandbox is refused meanwhile", func() (string, error) { return w.closedCreate(ctx) }); err != nil {
		return err
	}
	err = t.Check("the standby takes over, the gate opens", func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, longWait)
		defer cancel()
		err := eventually(ctx, func() error { return w.gateway.EnsureWorkspace(ctx, w.team) })
		return fmt.Sprintf("%s after the kill, by itself; a Lease is waited for 10 s", span(time.Since(killed))), err
	})
	if err != nil {
		return err
	}
	return t.Check("the list of the new leader", func() (string, error) { return w.list(ctx, 1) })
}

// closedCreate demands that a create is refused since nobody knows, which is another answer than no, and that nothing is made.
func (w *World) closedCreate(ctx context.Context) (string, error) {
	const name = "unknown"
	before := w.refusals(mesh.Lifecycle, "refused")
	made, err := w.gateway.Create(ctx, w.wish(name))
	if err == nil {
		return "", fmt.Errorf("sandbox %s was made, as %s", name, made.ID)
	}
	// A gateway knows only FAILED_PRECONDITION for a no; the first is of EnsureWorkspace, the second of CreateSandbox.
	if err := answeredWith(err, codes.Unavailable, codes.Internal); err != nil {
		return "", err
	}
	if _, err := w.explained(ctx, mesh.Lifecycle, "refused", before, "stale"); err != nil {
		return "", err
	}
	if err := w.nothingOf(ctx, name); err != nil {
		return "", err
	}
	return fmt.Sprintf("gateway: %s: %s", status.Code(err), status.Convert(err).Message()), nil
}
