package driver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/apistatus"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/driver"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/observe"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// What the API server quotes of a Sandbox is told to nobody, and its words are bounded where they are kept.
func TestWordsOfTheAPIServer(t *testing.T) {
	const value = "s3cr3t-value"
	refused := apierrors.NewInvalid(schema.GroupKind{Group: "agents.x-k8s.io", Kind: "Sandbox"}, "box", field.ErrorList{
		field.Invalid(field.NewPath("spec", "podTemplate"), value, "is bad: "+strings.Repeat("so bad ", 1<<14)),
	})
	var log strings.Builder
	w := base(t)
	w.log = &log
	w.faults["create"] = fmt.Errorf("make Sandbox team/box: %w: %w", cluster.ErrRefused, apistatus.Quiet(refused))
	_, err := w.driver(t).CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: wish()})
	const want = "sandbox: the API server refuses it: Invalid: spec.podTemplate (FieldValueInvalid)"
	if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != want {
		t.Errorf("told %q", s.Message())
	}
	if text := log.String(); strings.Contains(text, value) || !strings.Contains(text, "spec.podTemplate") || len(text) > 4096 {
		t.Errorf("logged %.5000s", text)
	}
	log.Reset()
	w.faults["find"] = errors.New(strings.Repeat("\xff so much to say ", 1<<16))
	if _, err := w.driver(t).StopSandbox(t.Context(), &computev1.StopSandboxRequest{SandboxId: id}); err == nil || len(log.String()) > 4096 {
		t.Errorf("error %v, logged %d bytes", err, len(log.String()))
	}
}

// What supervisorctl says that the cluster refuses a run for reaches the gateway's user; its explanation does not.
func TestWordsOfSupervisorctl(t *testing.T) {
	const told = "the cluster refuses the sandbox's pod: exceeded quota: one-pod, requested: pods=1, used: pods=1, limited: pods=1"
	refused := verdict.Refuse(verdict.WorkloadRefused, "provision", "the controller reports: hush").WithMessage(told).Err()
	for step, do := range map[string]func(*driver.Driver) error{
		"provision": func(d *driver.Driver) error {
			_, err := d.CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: wish()})
			return err
		},
		"restart g0000000000000001": func(d *driver.Driver) error {
			_, err := d.StartSandbox(t.Context(), start())
			return err
		},
	} {
		w := base(t)
		d := w.driver(t)
		if step != "provision" {
			d = created(t, w, wish())
		}
		w.faults[step] = refused
		if s := status.Convert(do(d)); s.Code() != codes.FailedPrecondition || s.Message() != told {
			t.Errorf("%s: told %s, %q", step, s.Code(), s.Message())
		}
	}
}

// slow is the error of a client that bounds its requests itself, as http.Client does.
type slow struct{}

func (slow) Error() string   { return "Client.Timeout exceeded while awaiting headers" }
func (slow) Is(e error) bool { return e == context.DeadlineExceeded } // so does http.Client

// That a part's own time was up is not the caller's end, which has a code and a reason of its own.
func TestWhoseTimeWasUp(t *testing.T) {
	calls := map[string]struct {
		step   string
		do     func(context.Context, *driver.Driver) error
		code   codes.Code
		reason verdict.Reason
	}{
		"get": {"get", func(ctx context.Context, d *driver.Driver) error {
			_, err := d.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id})
			return err
		}, codes.Internal, verdict.SandboxUnsettled},
		"stop": {"find", func(ctx context.Context, d *driver.Driver) error {
			_, err := d.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id})
			return err
		}, codes.Unavailable, verdict.SandboxUnsettled},
		"delete": {"find", func(ctx context.Context, d *driver.Driver) error {
			_, err := d.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id})
			return err
		}, codes.Internal, verdict.SandboxUnsettled},
		"create, by supervisorctl": {"provision", func(ctx context.Context, d *driver.Driver) error {
			_, err := d.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish()})
			return err
		}, codes.Unavailable, verdict.SupervisorctlUnreachable},
		"ensure": {"ensure", func(ctx context.Context, d *driver.Driver) error {
			_, err := d.EnsureWorkspace(ctx, &computev1.EnsureWorkspaceRequest{Workspace: namespace})
			return err
		}, codes.Internal, verdict.WorkspaceUnreadable},
	}
	for name, c := range calls {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			w := base(t)
			w.log = &log
			switch c.step {
			case "provision":
				w.faults[c.step] = status.Error(codes.DeadlineExceeded, "its own")
			case "ensure":
				w.faults[c.step] = refusal(verdict.CallEnded)
			default:
				w.faults[c.step] = fmt.Errorf("ask: %w", slow{})
			}
			if err := c.do(t.Context(), w.driver(t)); status.Code(err) != c.code || !strings.Contains(log.String(), `"reason":"`+string(c.reason)+`"`) {
				t.Errorf("%s, a part's: %v, want %s; logged %s", name, err, c.code, log.String())
			}
			w = base(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			w.takes = map[string]time.Duration{c.step: time.Minute}
			if c.step == "ensure" {
				w.faults[c.step] = refusal(verdict.CallEnded)
			}
			if err := c.do(ctx, w.driver(t)); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("%s, the caller's: %v", name, err)
			}
		})
	}
}

// TestUnreadable: that an object cannot be understood has a reason of its own, and is not absence.
func TestUnreadable(t *testing.T) {
	w := base(t)
	var log strings.Builder
	w.log = &log
	w.faults["get"] = fmt.Errorf("look: %w", observe.ErrUnreadable)
	_, err := w.driver(t).GetSandbox(t.Context(), &computev1.GetSandboxRequest{SandboxId: id})
	if status.Code(err) != codes.Internal || !strings.Contains(log.String(), `"sandbox_unreadable"`) {
		t.Errorf("error %v, logged %s", err, log.String())
	}
}
