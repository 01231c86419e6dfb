package driver_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/driver"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// hostileIDs are no ids of sandboxes, each for a reason of its own.
var hostileIDs = map[string]string{
	"none": "", "a long one": strings.Repeat("a", 37), "a very long one": strings.Repeat("a", 1<<20), "no text": "a\xff", "a selector's": "a,b", "another selector's": "a=b",
	"a path": "../x", "a space": " ", "a line break": "a\nb", "a NUL": "a\x00", "a dot": "a.b", "ends in a dash": "a-",
}

// Each call that names a sandbox refuses what cannot be an id by its field, and asks nobody.
func TestHostileIDs(t *testing.T) {
	calls := map[string]func(*driver.Driver, context.Context, string) error{
		"get": func(d *driver.Driver, ctx context.Context, id string) error {
			_, err := d.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id})
			return err
		},
		"stop": func(d *driver.Driver, ctx context.Context, id string) error {
			_, err := d.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id})
			return err
		},
		"delete": func(d *driver.Driver, ctx context.Context, id string) error {
			_, err := d.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id})
			return err
		},
		"start": func(d *driver.Driver, ctx context.Context, id string) error {
			in := start()
			in.SandboxId = id
			_, err := d.StartSandbox(ctx, in)
			return err
		},
	}
	for call, of := range calls {
		for name, hostile := range hostileIDs {
			t.Run(call+" of "+name, func(t *testing.T) {
				w := base(t)
				refused(t, w, of(w.driver(t), t.Context(), hostile), codes.InvalidArgument, "sandbox_id")
			})
		}
	}
}

// The id alone says which sandbox is meant: a name beside it, another sandbox's or of any length, decides nothing and harms nobody.
func TestNamesBesideAnID(t *testing.T) {
	calls := map[string]struct {
		do   func(*driver.Driver, context.Context, string) error
		does string // a step of it for the sandbox with the id
	}{
		"get": {func(d *driver.Driver, ctx context.Context, name string) error {
			_, err := d.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id, Name: name})
			return err
		}, "get"},
		"stop": {func(d *driver.Driver, ctx context.Context, name string) error {
			_, err := d.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: id, Name: name})
			return err
		}, "release " + uid},
		"delete": {func(d *driver.Driver, ctx context.Context, name string) error {
			_, err := d.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: id, Name: name})
			return err
		}, "delete " + uid},
		"start": {func(d *driver.Driver, ctx context.Context, name string) error {
			in := start()
			in.Name = name
			_, err := d.StartSandbox(ctx, in)
			return err
		}, restarted},
	}
	for call, c := range calls {
		for kind, name := range map[string]string{"none": "", "its own": "box", "another's": "precious", "a path": "../x", "a long one": strings.Repeat("x", 1<<20)} {
			t.Run(call+" with "+kind, func(t *testing.T) {
				w := base(t)
				d := created(t, w, wish())
				precious := other(namespace, "precious", "uid-5")
				precious.Labels[workspace.LabelSandboxID] = "5c67c0d0-1111-2222-3333-444444444444"
				w.objects = append(w.objects, precious)
				if err := c.do(d, t.Context(), name); err != nil || !slices.Contains(w.steps(), c.does) {
					t.Errorf("error %v, %q", err, w.steps())
				}
				for _, step := range w.steps() {
					if strings.Contains(step, "uid-5") || strings.Contains(step, "precious") {
						t.Errorf("did %q", step)
					}
				}
			})
		}
	}
}

// refused holds an answer against the code and the field that it must name first, and looks that nobody was asked and nothing long repeated.
func refused(t *testing.T, w *world, err error, code codes.Code, field string) {
	t.Helper()
	s := status.Convert(err)
	if rest, named := strings.CutPrefix(s.Message(), field); s.Code() != code || !named || !strings.HasPrefix(rest, ": ") && !strings.HasPrefix(rest, " is ") {
		t.Errorf("error %v; want %s and %s", err, code, field)
	}
	if len(s.Message()) > 400 || strings.Contains(s.Message(), hidden) {
		t.Errorf("it repeats too much: %s", s.Message())
	}
	if steps := w.steps(); len(steps) != 0 {
		t.Errorf("did %q", steps)
	}
}

// Each case breaks one field of a start that would succeed.
func TestHostileStarts(t *testing.T) {
	cases := map[string]struct {
		change func(*computev1.StartSandboxRequest)
		code   codes.Code
		field  string
	}{
		"no generation":         {func(in *computev1.StartSandboxRequest) { in.GenerationId = "" }, codes.InvalidArgument, "generation_id"},
		"a generation of 65":    {func(in *computev1.StartSandboxRequest) { in.GenerationId = strings.Repeat("a", 65) }, codes.InvalidArgument, "generation_id"},
		"a generation of 1 MiB": {func(in *computev1.StartSandboxRequest) { in.GenerationId = strings.Repeat("a", 1<<20) }, codes.InvalidArgument, "generation_id"},
		"no text":               {func(in *computev1.StartSandboxRequest) { in.GenerationId = "g\xff1" }, codes.InvalidArgument, "generation_id"},
		"capitals":              {func(in *computev1.StartSandboxRequest) { in.GenerationId = "G1" }, codes.InvalidArgument, "generation_id"},
		"a path":                {func(in *computev1.StartSandboxRequest) { in.GenerationId = "g1/../x" }, codes.InvalidArgument, "generation_id"},
		"dashes alone":          {func(in *computev1.StartSandboxRequest) { in.GenerationId = "--" }, codes.InvalidArgument, "generation_id"},
		"no bundle":             {func(in *computev1.StartSandboxRequest) { in.LaunchAuthentication = nil }, codes.FailedPrecondition, "launch_authentication"},
		"a bundle that is too large": {func(in *computev1.StartSandboxRequest) {
			in.LaunchAuthentication = []byte(strings.Repeat(hidden, (256<<10)/len(hidden)+1))
		}, codes.FailedPrecondition, "launch_authentication"},
		"no identity":               {func(in *computev1.StartSandboxRequest) { in.ExpectedRuntimeIdentity = "" }, codes.FailedPrecondition, "expected_runtime_identity"},
		"another driver's identity": {func(in *computev1.StartSandboxRequest) { in.ExpectedRuntimeIdentity = "kyma://a/b" }, codes.FailedPrecondition, "expected_runtime_identity"},
		"a long identity": {func(in *computev1.StartSandboxRequest) {
			in.ExpectedRuntimeIdentity = identity + strings.Repeat("x", 1<<20)
		}, codes.FailedPrecondition, "expected_runtime_identity"},
		"an identity that is no text": {func(in *computev1.StartSandboxRequest) { in.ExpectedRuntimeIdentity = "kubernetes://team/\xff/u" }, codes.FailedPrecondition, "expected_runtime_identity"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := base(t)
			in := start()
			c.change(in)
			_, err := w.driver(t).StartSandbox(t.Context(), in)
			refused(t, w, err, c.code, c.field)
		})
	}
}

// The longest of each is taken.
func TestStartAtItsLimits(t *testing.T) {
	w := base(t)
	d := created(t, w, wish())
	in := start()
	in.GenerationId, in.LaunchAuthentication = strings.Repeat("g", 64), make([]byte, 256<<10)
	if _, err := d.StartSandbox(t.Context(), in); err != nil {
		t.Error(err)
	}
}

// A contradictory identity names its field, and not what stands in the cluster.
func TestStartOfAnothersIdentity(t *testing.T) {
	for _, other := range []string{"kubernetes://team/uid-7/uid-2", "kubernetes://other/uid-1/uid-2"} {
		w := base(t)
		d := created(t, w, wish())
		in := start()
		in.ExpectedRuntimeIdentity = other
		_, err := d.StartSandbox(t.Context(), in)
		if s := status.Convert(err); s.Code() != codes.FailedPrecondition || !strings.HasPrefix(s.Message(), "expected_runtime_identity: ") || strings.Contains(s.Message(), uid) {
			t.Errorf("error %v", err)
		}
	}
}

func TestFieldsThatAreMissing(t *testing.T) {
	w := base(t)
	d, ctx := w.driver(t), t.Context()
	_, create := d.CreateSandbox(ctx, &computev1.CreateSandboxRequest{})
	_, validate := d.ValidateSandboxCreate(ctx, &computev1.ValidateSandboxCreateRequest{})
	_, ensure := d.EnsureWorkspace(ctx, &computev1.EnsureWorkspaceRequest{})
	_, undo := d.DeleteWorkspace(ctx, &computev1.DeleteWorkspaceRequest{})
	refused(t, w, create, codes.InvalidArgument, "sandbox")
	refused(t, w, validate, codes.InvalidArgument, "sandbox")
	refused(t, w, ensure, codes.InvalidArgument, "workspace")
	refused(t, w, undo, codes.InvalidArgument, "workspace")
}

// What the gateway gets of several problems are whole ones, each with its path, and the number of the others.
func TestSeveralProblemsAreSent(t *testing.T) {
	w := base(t)
	in := wish()
	in.Id, in.Name = "a,b", ""
	in.Spec.Environment = map[string]string{}
	for i := range 30 {
		in.Spec.Environment["OPENSHELL_"+strings.Repeat("X", i+1)] = "x"
	}
	_, err := w.driver(t).CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: in})
	s := status.Convert(err)
	told := strings.Split(s.Message(), "; ")
	if s.Code() != codes.InvalidArgument || len(told) < 6 || len(s.Message()) > 4096 {
		t.Fatalf("%d problems in %d bytes: %v", len(told), len(s.Message()), err)
	}
	for _, problem := range told[:len(told)-1] {
		if path, text, ok := strings.Cut(problem, ": "); !ok || !strings.HasPrefix(path, "sandbox") || text == "" {
			t.Errorf("%q is no problem with its path", problem)
		}
	}
	if last := told[len(told)-1]; !strings.HasPrefix(last, "and ") || !strings.HasSuffix(last, " more problems") {
		t.Errorf("the end is %q", last)
	}
}
