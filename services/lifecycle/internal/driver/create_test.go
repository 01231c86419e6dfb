package driver_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestCreate(t *testing.T) {
	w := base(t)
	w.looks[attached] = claim("claim-1")
	got, err := w.driver(t).CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: attaching(t)})
	if err != nil || got.GetRuntimeIdentity() != identity {
		t.Fatalf("identity %q, error %v", got.GetRuntimeIdentity(), err)
	}
	want := []string{"find", "ensure", "look " + attached, "still", "create", "provision", "still", "look " + attached, "answered"}
	if steps := w.steps(); !slices.Equal(steps, want) {
		t.Errorf("steps %q\nwant  %q", steps, want)
	}
	if mark := w.made.GetLabels()["openshell.ai/sandbox-create"]; mark != "pending" {
		t.Errorf("the Sandbox is made with the mark %q", mark)
	}
	if record := w.made.GetAnnotations()["openshell.ai/resource-admission-identities"]; record != `{"`+attached+`":"claim-1"}` {
		t.Errorf("recorded %s", record)
	}
	if string(w.provided.GetLaunchAuthentication()) != hidden {
		t.Error("the bundle was not passed on as it was")
	}
	generation := w.provided.GetRun().GetGenerationId()
	if generation != w.made.GetAnnotations()["openshell.ai/sandbox-runtime-generation"] || len(generation) != 64 {
		t.Errorf("the generation is %q", generation)
	}
}

// Each case breaks one thing about a create that succeeds. Whatever it is, nothing is left that the create made.
func TestCreateThatFails(t *testing.T) {
	attach := func(look inventory.Look) func(*testing.T, *world, *computev1.DriverSandbox) {
		return func(t *testing.T, w *world, in *computev1.DriverSandbox) {
			w.looks[attached] = look
			in.Spec = attaching(t).Spec
		}
	}
	fault := func(step string, err error) func(*testing.T, *world, *computev1.DriverSandbox) {
		return func(_ *testing.T, w *world, _ *computev1.DriverSandbox) { w.faults[step] = err }
	}
	denied := verdict.Refuse(verdict.FenceAltered, "fence", "policy x is altered").Err()
	cases := map[string]struct {
		change func(*testing.T, *world, *computev1.DriverSandbox)
		code   codes.Code
		made   bool // and so deleted
	}{
		"no name":   {func(_ *testing.T, _ *world, in *computev1.DriverSandbox) { in.Name = "" }, codes.InvalidArgument, false},
		"no bundle": {func(_ *testing.T, _ *world, in *computev1.DriverSandbox) { in.Spec.LaunchAuthentication = nil }, codes.FailedPrecondition, false},
		"the id is taken": {func(_ *testing.T, w *world, _ *computev1.DriverSandbox) {
			w.objects = []sandboxapi.Object{other(namespace, "copy", "uid-5")}
		}, codes.AlreadyExists, false},
		"the id cannot be looked for":    {fault("find", errAPI), codes.Unavailable, false},
		"not on the list":                {fault("ensure", refusal(verdict.NotListed)), codes.FailedPrecondition, false},
		"nobody can prove the list":      {fault("ensure", refusal(verdict.Stale)), codes.Unavailable, false},
		"the namespace is going":         {fault("ensure", refusal(verdict.WorkspaceTerminating)), codes.Unavailable, false},
		"the namespace was replaced":     {fault("ensure", refusal(verdict.NamespaceReplaced)), codes.FailedPrecondition, false},
		"leaves the list meanwhile":      {fault("still", refusal(verdict.NotListed)), codes.FailedPrecondition, false},
		"the list ages meanwhile":        {fault("still", refusal(verdict.Stale)), codes.Unavailable, false},
		"a claim without labels":         {attach(inventory.Look{}), codes.Unavailable, false},
		"a claim that cannot be read":    {attach(inventory.Failed(errAPI)), codes.Unavailable, false},
		"a claim that is not there":      {attach(inventory.Failed(apierrors.NewNotFound(inventory.PersistentVolumeClaim.Resource().GroupResource(), "datasets"))), codes.FailedPrecondition, false},
		"the name is taken":              {fault("create", cluster.ErrExists), codes.AlreadyExists, false},
		"the cluster refuses it":         {fault("create", cluster.ErrRefused), codes.FailedPrecondition, false},
		"no such resource":               {fault("create", cluster.ErrNotServed), codes.FailedPrecondition, false},
		"it is not known whether it was": {fault("create", cluster.ErrUnsettled), codes.Unavailable, false},
		"the API server is away":         {fault("create", errAPI), codes.Unavailable, false},
		"supervisorctl refuses":          {fault("provision", denied), codes.FailedPrecondition, true},
		"supervisorctl is away":          {fault("provision", status.Error(codes.Unavailable, "connection refused")), codes.Unavailable, true},
		"supervisorctl does not know":    {fault("provision", verdict.Refuse(verdict.RunObjectUnreadable, "x", "y").Err()), codes.Unavailable, true},
		"supervisorctl lost the Sandbox": {fault("provision", verdict.Refuse(verdict.RunSandboxAbsent, "x", "y").Err()), codes.FailedPrecondition, true},
		"a reason of a newer supervisorctl": {
			fault("provision", verdict.Refuse("of_tomorrow", "x", "y").Err()), codes.Internal, true,
		},
		"no identity":           {func(_ *testing.T, w *world, _ *computev1.DriverSandbox) { w.identity = nil }, codes.Internal, true},
		"another's identity":    {func(_ *testing.T, w *world, _ *computev1.DriverSandbox) { w.identity.SandboxUid = "uid-9" }, codes.Internal, true},
		"half an identity":      {func(_ *testing.T, w *world, _ *computev1.DriverSandbox) { w.identity.SupervisorUid = "" }, codes.Internal, true},
		"the mark stays":        {fault("answered", errAPI), codes.Unavailable, true},
		"the mark stays, slow":  {fault("answered", context.DeadlineExceeded), codes.Unavailable, true},
		"it cannot be rendered": {func(_ *testing.T, w *world, in *computev1.DriverSandbox) { in.Spec.Template.Image = "" }, codes.FailedPrecondition, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, in := base(t), wish()
			c.change(t, w, in)
			before := len(w.objects)
			got, err := w.driver(t).CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: in})
			if status.Code(err) != c.code || got != nil {
				t.Errorf("answer %v, error %v, want %s", got, err, c.code)
			}
			if strings.Contains(status.Convert(err).Message(), hidden) {
				t.Error("the error has the bundle")
			}
			if len(w.objects) != before {
				t.Errorf("%d Sandboxes are left", len(w.objects)-before)
			}
			if deleted := slices.Contains(w.steps(), "delete "+uid); deleted != c.made {
				t.Errorf("steps %q", w.steps())
			}
		})
	}
}

// A create may be cancelled at any of its steps. Whatever it had made is deleted although its caller is gone.
func TestCreateThatIsCancelled(t *testing.T) {
	for _, step := range []string{"find", "ensure", "gpu", "look " + attached, "still", "create", "provision", "answered"} {
		t.Run("at "+step, func(t *testing.T) {
			w, in := base(t), attaching(t)
			w.looks[attached], in.Spec.ResourceRequirements = claim("claim-1"), gpu()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.before[step] = cancel
			if step == "still" { // asks nobody and so does not notice
				w.faults["create"] = context.Canceled
			}
			if _, err := w.driver(t).CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: in}); status.Code(err) != codes.Canceled {
				t.Errorf("error %v", err)
			}
			if len(w.objects) != 0 {
				t.Errorf("a Sandbox is left after %q", w.steps())
			}
		})
	}
}

// One id, many calls: one is made, the others are told that it is there.
func TestCreatesOfOneID(t *testing.T) {
	w := base(t)
	d := w.driver(t)
	const calls = 16
	errs := make(chan error, calls)
	for range calls {
		go func() {
			_, err := d.CreateSandbox(t.Context(), &computev1.CreateSandboxRequest{Sandbox: wish()})
			errs <- err
		}()
	}
	made := 0
	for range calls {
		switch err := <-errs; status.Code(err) {
		case codes.OK:
			made++
		case codes.AlreadyExists:
		default:
			t.Error(err)
		}
	}
	if made != 1 || len(w.objects) != 1 {
		t.Errorf("%d were made, %d objects", made, len(w.objects))
	}
}

func TestValidate(t *testing.T) {
	cases := map[string]struct {
		change func(*world, *computev1.DriverSandbox)
		code   codes.Code
	}{
		"base":                  {func(*world, *computev1.DriverSandbox) {}, codes.OK},
		"no bundle yet":         {func(_ *world, in *computev1.DriverSandbox) { in.Spec.LaunchAuthentication = nil }, codes.OK},
		"no workspace":          {func(_ *world, in *computev1.DriverSandbox) { in.Workspace = "" }, codes.InvalidArgument},
		"a graphics processor":  {func(_ *world, in *computev1.DriverSandbox) { in.Spec.ResourceRequirements = gpu() }, codes.OK},
		"no graphics processor": {func(w *world, in *computev1.DriverSandbox) { w.offers, in.Spec.ResourceRequirements = false, gpu() }, codes.FailedPrecondition},
		"nodes cannot be read": {func(w *world, in *computev1.DriverSandbox) {
			w.offers, w.faults["gpu"], in.Spec.ResourceRequirements = false, errAPI, gpu()
		}, codes.Unavailable},
		"the namespace cannot be read": {func(w *world, _ *computev1.DriverSandbox) { w.faults["namespace"] = errAPI }, codes.Unavailable},
		"the user is set": {func(w *world, _ *computev1.DriverSandbox) {
			w.faults["namespace"], w.settings.SandboxUID = errAPI, new(uint32(1000))
		}, codes.OK},
		"not on the list": {func(w *world, _ *computev1.DriverSandbox) { w.faults["ensure"] = refusal(verdict.NotListed) }, codes.OK},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, in := base(t), wish()
			c.change(w, in)
			_, err := w.driver(t).ValidateSandboxCreate(t.Context(), &computev1.ValidateSandboxCreateRequest{Sandbox: in})
			if status.Code(err) != c.code {
				t.Errorf("error %v, want %s", err, c.code)
			}
			for _, step := range w.steps() {
				if step != "gpu" && step != "namespace" {
					t.Errorf("did %q", step)
				}
			}
		})
	}
}

func gpu() *computev1.ResourceRequirements {
	return &computev1.ResourceRequirements{Gpu: &computev1.GpuResourceRequirements{}}
}
