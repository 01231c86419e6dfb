package driver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/apistatus"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/identity"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/template"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// ValidateSandboxCreate judges a request without making anything (contract 2.6): its fields, and what of the cluster a create would
// refuse it for before it makes something.
func (d *Driver) ValidateSandboxCreate(ctx context.Context, in *computev1.ValidateSandboxCreateRequest) (*computev1.ValidateSandboxCreateResponse, error) {
	ctx, cancel := limit(ctx, d.settings.CreateTimeout.Std())
	defer cancel()
	if err := d.validate(ctx, in.GetSandbox()); err != nil {
		return nil, d.conclude(ctx, callValidate, in.GetSandbox().GetId(), err)
	}
	return &computev1.ValidateSandboxCreateResponse{}, nil
}

func (d *Driver) validate(ctx context.Context, in *computev1.DriverSandbox) error {
	sandbox, decision := d.deps.Requests.Validate(in)
	if err := granted(decision); err != nil {
		return err
	}
	spec := sandbox.Spec()
	if err := folded(spec.ID); err != nil {
		return err
	}
	if err := d.offersGPU(ctx, &spec); err != nil {
		return err
	}
	namespace := identity.Read(nil)
	if identity.NeedsNamespace(d.kubernetes) {
		// In managed mode it may not exist yet; then it has no annotations either.
		annotations, err := d.deps.Cluster.NamespaceAnnotations(ctx, spec.Namespace)
		if namespace = identity.Read(annotations); err != nil {
			namespace = identity.Unread(err)
		}
	}
	who, decision := identity.Resolve(d.kubernetes, namespace)
	if err := grantedIn(ctx, decision); err != nil {
		return err
	}
	generation, err := newGeneration()
	if err != nil {
		return err
	}
	_, err = d.attachments(sandbox, template.Run{Identity: who, Generation: generation})
	return err
}

// CreateSandbox makes a sandbox (contract 7.2), or nothing.
func (d *Driver) CreateSandbox(ctx context.Context, in *computev1.CreateSandboxRequest) (*computev1.CreateSandboxResponse, error) {
	ctx, cancel := limit(ctx, d.settings.CreateTimeout.Std())
	defer cancel()
	id := in.GetSandbox().GetId()
	text, err := d.create(ctx, in.GetSandbox())
	if err != nil {
		return nil, d.conclude(ctx, callCreate, id, err)
	}
	return &computev1.CreateSandboxResponse{RuntimeIdentity: text}, nil
}

func (d *Driver) create(ctx context.Context, in *computev1.DriverSandbox) (string, error) {
	sandbox, decision := d.deps.Requests.Create(in)
	if err := granted(decision); err != nil {
		return "", err
	}
	spec := sandbox.Spec()
	if err := folded(spec.ID); err != nil {
		return "", err
	}
	leave, err := d.gates.enter(ctx, spec.ID)
	if err != nil {
		return "", err
	}
	defer leave()
	if err := d.unused(ctx, spec.ID); err != nil {
		return "", err
	}
	p, err := d.prepare(ctx, sandbox, &spec)
	if err != nil {
		return "", err
	}
	made, err := d.make(ctx, sandbox, p.run, p.place)
	if err != nil {
		return "", err
	}
	text, err := d.provision(ctx, in, &spec, p.run, made)
	if err == nil {
		err = d.stillAdmitted(ctx, callCreate, p.place, p.admitted)
	}
	if err != nil {
		d.undo(ctx, left{made: made, id: spec.ID, marked: true}, err)
		return "", err
	}
	done := d.step(callCreate, "answer")
	err = d.deps.Cluster.Answered(ctx, made)
	done()
	if err != nil {
		err = fmt.Errorf("the sandbox stands, and it could not be recorded that it does: %w", err)
		d.undo(ctx, left{made: made, id: spec.ID}, err)
		return "", err
	}
	return text, nil
}

// folded refuses the id of a new sandbox that has capital letters. The companions are named in small ones (contract 4.2), so two ids that
// differ in nothing else would have the same, and no selector finds the one by the other. Gateways make small ones (contract 2.5).
func folded(id string) error {
	if id == strings.ToLower(id) {
		return nil
	}
	return refuseSaying(verdict.RequestInvalid, "sandbox.id", "sandbox.id: must be in lower case: its companions are named so")
}

// unused refuses an id that a Sandbox has already, under whatever name: the companions of both would be the same.
//
// It asks the API server for a consistent list each time, and not the view, however current that is. Nothing else tells the second of two
// creates from the first when they have one id and two names: the object's name guards against its own repetition only, and the gate
// against this process only. The list is of a state after the call began, so it has every Sandbox that any replica had made by then. The view has
// what its watch was told: that counts as current for watch_max_age, and on a watch that is silent, or late, it says nothing about the last
// seconds. So its "none" is no proof, and its "one" would refuse the create that follows a delete.
//
// Two creates that overlap in two replicas find nothing, both. Then two objects have the id, and it is refused until they are deleted: by a
// delete, where they are in one workspace, and else by a person.
//
// The list costs a few milliseconds of the API server, and grows with the Sandboxes it has; docs/performance.md has how much.
func (d *Driver) unused(ctx context.Context, id string) error {
	defer d.step(callCreate, "find")()
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return refuse(verdict.SandboxExists, "sandbox.unused", "Sandbox %s/%s has the id", found[0].Namespace, found[0].Name)
	}
	return nil
}

// prepared is everything that a sandbox rests on.
type prepared struct {
	place    workspaces.Place
	run      template.Run
	admitted admitted
}

// prepare finds out everything that a sandbox rests on. In managed mode it makes the namespace, which stays.
func (d *Driver) prepare(ctx context.Context, sandbox request.Sandbox, spec *request.Spec) (prepared, error) {
	defer d.step(callCreate, "prepare")()
	fail := func(err error) (prepared, error) { return prepared{}, err }
	place, err := d.deps.Workspaces.Ensure(ctx, spec.Workspace)
	if err != nil {
		return fail(err)
	}
	if place.Namespace != spec.Namespace {
		return fail(refuse(verdict.Unexplained, "workspace.place", "the workspace is in namespace %s and the request in %s: a defect of the driver", place.Namespace, spec.Namespace))
	}
	if err := d.offersGPU(ctx, spec); err != nil {
		return fail(err)
	}
	who, decision := identity.Resolve(d.kubernetes, identity.Read(place.Annotations))
	if err := granted(decision); err != nil {
		return fail(err)
	}
	generation, err := newGeneration()
	if err != nil {
		return fail(err)
	}
	run := template.Run{
		Identity: who, Generation: generation, StartedAt: d.now(), TraceParent: traceParent(ctx), NamespaceAnnotations: place.Annotations,
	}
	attached, err := d.attachments(sandbox, run)
	if err != nil {
		return fail(err)
	}
	record, err := d.admit(ctx, attached, spec.Workspace)
	if err != nil {
		return fail(err)
	}
	if len(record) > 0 {
		if run.Attachments, err = record.Encode(); err != nil {
			return fail(fmt.Errorf("write down what the sandbox is attached to: %w", err))
		}
	}
	return prepared{place, run, admitted{spec.Workspace, attached, record}}, nil
}

func (d *Driver) offersGPU(ctx context.Context, spec *request.Spec) error {
	if !spec.GPU {
		return nil
	}
	offered, err := d.deps.Cluster.OffersGPU(ctx)
	return grantedIn(ctx, request.JudgeGPU(offered, err))
}

// attachments names the objects that the workload Pod would be attached to.
func (d *Driver) attachments(sandbox request.Sandbox, run template.Run) ([]inventory.Attachment, error) {
	pod, err := d.deps.Templates.Pod(sandbox, run)
	if err != nil {
		return nil, refuse(verdict.Unexplained, "template.render", "the workload Pod cannot be rendered: %v", err)
	}
	spec := sandbox.Spec()
	return d.inventory(pod, inventory.Own{
		Namespace: spec.Namespace, ObjectName: spec.ObjectName, SandboxID: spec.ID, Generation: run.Generation,
		PullSecrets: d.deps.Templates.PullSecretNames(spec.ID, run.Generation),
	})
}

func (d *Driver) inventory(pod *corev1.PodTemplateSpec, own inventory.Own) ([]inventory.Attachment, error) {
	attached, decision := d.deps.Inventory.Attachments(pod, own)
	return attached, granted(decision)
}

// make makes the Sandbox, suspended and marked, if its place may still be used.
func (d *Driver) make(ctx context.Context, sandbox request.Sandbox, run template.Run, place workspaces.Place) (cluster.Made, error) {
	defer d.step(callCreate, "make")()
	// What was read since the list was asked took time.
	if err := d.deps.Workspaces.Still(place); err != nil {
		return cluster.Made{}, err
	}
	made, err := d.deps.Cluster.Create(ctx, func(version sandboxapi.Version) (*unstructured.Unstructured, error) {
		run.Version = version
		object, err := d.deps.Templates.Sandbox(sandbox, run)
		if err != nil {
			return nil, refuse(verdict.Unexplained, "template.render", "the Sandbox cannot be rendered: %v", err)
		}
		labels := object.GetLabels()
		labels[workspace.LabelCreate] = workspace.CreatePending
		object.SetLabels(labels)
		return object, nil
	})
	if errors.Is(err, cluster.ErrRefused) { // its own words are for the log: they may quote the object
		return made, &refusal{decision: verdict.Refuse(verdict.SandboxRefused, "sandbox.make", err.Error()).WithMessage("sandbox: " + apistatus.Told(err))}
	}
	return made, err
}

// provision has supervisorctl raise the companions, and gives the identity of the run.
func (d *Driver) provision(ctx context.Context, in *computev1.DriverSandbox, spec *request.Spec, run template.Run, made cluster.Made) (string, error) {
	defer d.step(callCreate, "provision")()
	answered, err := d.deps.Companions.Provision(ctx, &supervisorv1.ProvisionRequest{
		Sandbox:              d.reference(made.Namespace, made.Name, string(made.UID), spec.ID),
		Run:                  &supervisorv1.Run{GenerationId: run.Generation},
		LaunchAuthentication: in.GetSpec().GetLaunchAuthentication(),
		RequestId:            requestID(ctx),
	})
	if err != nil {
		return "", remote(ctx, err, verdict.SupervisorctlUnreachable, "companions.provision")
	}
	return identityOf(answered.GetIdentity(), made.Namespace, string(made.UID))
}

func (d *Driver) reference(namespace, name, uid, id string) *supervisorv1.SandboxRef {
	return &supervisorv1.SandboxRef{GatewayId: d.kubernetes.GatewayID, Namespace: namespace, Name: name, Uid: uid, SandboxId: id}
}

// identityOf is the text that the gateway stores; it must be about the object that was meant.
func identityOf(i *supervisorv1.RuntimeIdentity, namespace, uid string) (string, error) {
	if i.GetNamespace() != namespace || i.GetSandboxUid() != uid {
		return "", refuse(verdict.Unexplained, "companions.identity", "supervisorctl answered for %s/%s, and %s/%s was meant", i.GetNamespace(), i.GetSandboxUid(), namespace, uid)
	}
	text, err := runtimeid.New(namespace, uid, i.GetSupervisorUid())
	if err != nil {
		return "", refuse(verdict.Unexplained, "companions.identity", "supervisorctl answered with an identity that is none: %v", err)
	}
	return text.String(), nil
}

// newGeneration is the generation of a create: 32 random bytes in hexadecimal (contract 7.2 step 8).
func newGeneration() (string, error) {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("make a generation: %w", err)
	}
	return hex.EncodeToString(b), nil
}
