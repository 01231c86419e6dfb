package scripted

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	extensionv1 "github.com/portcullis-mesh/portcullis/proto/openshell/extension/v1"
)

// Policy is the acknowledgement of the default policy (contract 2.4).
const Policy = `v1:{"allow_driver_config":false,"resource_admission":{"enabled":true,"required_labels":` +
	`{"openshell.ai/sandbox-attachable":"true","openshell.ai/sandbox-attachable-workspace":"${workspace}"}}}`

// Bearer is the credential that the model takes for the supervisor of the sandbox with the id.
func Bearer(id string) string { return "bearer-of-" + id }

type model struct {
	capabilities *computev1.GetCapabilitiesResponse
	sandboxes    map[string]*running
	runs         map[string]int // how many runs a sandbox had, also after its end
}

type running struct {
	sandbox  *computev1.DriverSandbox
	identity string
}

func newModel() model {
	return model{capabilities: Capabilities(), sandboxes: map[string]*running{}, runs: map[string]int{}}
}

// Capabilities is what the model answers to a handshake.
func Capabilities() *computev1.GetCapabilitiesResponse {
	return &computev1.GetCapabilitiesResponse{
		DriverName: "scripted", SupportsSandboxAuthentication: true, ResourceAdmissionPolicy: Policy,
		Extension: &extensionv1.PeerMetadata{
			ProtocolVersion: &extensionv1.ProtocolVersion{Major: 1}, ImplementationName: "test/scripted", ImplementationVersion: "1",
			SupportedCapabilities: []string{"openshell.compute.contract"},
			RequiredCapabilities:  []string{"openshell.compute.contract", "openshell.compute.launch-authentication"},
		},
	}
}

// SetCapabilities changes the answer to handshakes.
func (d *Driver) SetCapabilities(change func(*computev1.GetCapabilitiesResponse)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d.model.capabilities)
}

// Has reports whether the model has the sandbox.
func (d *Driver) Has(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.model.sandboxes[id] != nil
}

// Identity returns the runtime identity of a sandbox's run.
func (d *Driver) Identity(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.model.sandboxes[id]; r != nil {
		return r.identity
	}
	return ""
}

// Show sets what the driver sees of a sandbox, and tells the watch.
func (d *Driver) Show(id string, conditions ...*computev1.DriverCondition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.show(id, conditions...)
}

// ShowIfAny is Show, when the model has the sandbox.
func (d *Driver) ShowIfAny(id string, conditions ...*computev1.DriverCondition) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.model.sandboxes[id] == nil {
		return false
	}
	d.show(id, conditions...)
	return true
}

func (d *Driver) show(id string, conditions ...*computev1.DriverCondition) {
	r := d.model.sandboxes[id]
	r.sandbox.Status = &computev1.DriverSandboxStatus{Conditions: conditions}
	d.tell(snapshot(r.sandbox))
}

// Hide sets what the driver sees without a word to the watch.
func (d *Driver) Hide(id string, conditions ...*computev1.DriverCondition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.model.sandboxes[id].sandbox.Status = &computev1.DriverSandboxStatus{Conditions: conditions}
}

// Vanish removes a sandbox; the watch is told unless silently.
func (d *Driver) Vanish(id string, silently bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.model.sandboxes, id)
	if !silently {
		d.tell(gone(id))
	}
}

// Tell sends an event to every watch.
func (d *Driver) Tell(e *computev1.WatchSandboxesEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell(e)
}

// TellOf sends a snapshot that the model does not stand behind.
func (d *Driver) TellOf(s *computev1.DriverSandbox) { d.Tell(snapshot(s)) }

// TellGone sends a Deleted event.
func (d *Driver) TellGone(id string) { d.Tell(gone(id)) }

// Seen returns a copy of what the driver sees of a sandbox.
func (d *Driver) Seen(id string) *computev1.DriverSandbox {
	d.mu.Lock()
	defer d.mu.Unlock()
	return proto.CloneOf(d.model.sandboxes[id].sandbox)
}

// EndWatches ends every watch with an error, or cleanly when it is nil.
func (d *Driver) EndWatches(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.streams {
		s.finish(err)
	}
}

func (d *Driver) tell(e *computev1.WatchSandboxesEvent) {
	for s := range d.streams {
		s.add(e)
	}
}

func snapshot(s *computev1.DriverSandbox) *computev1.WatchSandboxesEvent {
	return &computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_Sandbox{
		Sandbox: &computev1.WatchSandboxesSandboxEvent{Sandbox: proto.CloneOf(s)},
	}}
}

func gone(id string) *computev1.WatchSandboxesEvent {
	return &computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_Deleted{
		Deleted: &computev1.WatchSandboxesDeletedEvent{SandboxId: id},
	}}
}

func (d *Driver) create(s *computev1.DriverSandbox) string {
	r := &running{sandbox: &computev1.DriverSandbox{Id: s.GetId(), Name: s.GetName(), Workspace: s.GetWorkspace()}}
	d.model.sandboxes[s.GetId()] = r
	d.newRun(r)
	return r.identity
}

func (d *Driver) newRun(r *running) {
	id := r.sandbox.GetId()
	d.model.runs[id]++
	r.identity = fmt.Sprintf("scripted://%s/%d", id, d.model.runs[id])
	d.show(id, Bootstrapping()...)
}

func (d *Driver) start(id string) (*computev1.StartSandboxResponse, error) {
	r := d.model.sandboxes[id]
	if r == nil {
		return nil, status.Error(codes.NotFound, "sandbox not found")
	}
	d.newRun(r)
	return &computev1.StartSandboxResponse{RuntimeIdentity: r.identity}, nil
}

func (d *Driver) stopSandbox(id string) (*computev1.StopSandboxResponse, error) {
	if d.model.sandboxes[id] == nil {
		return nil, status.Error(codes.NotFound, "sandbox not found")
	}
	d.show(id, Suspended()...)
	return &computev1.StopSandboxResponse{}, nil
}

func (d *Driver) remove(id string) bool {
	if d.model.sandboxes[id] == nil {
		return false
	}
	delete(d.model.sandboxes, id)
	d.tell(gone(id))
	return true
}

// The service.

// GetCapabilities answers what SetCapabilities made of Capabilities.
func (d *Driver) GetCapabilities(ctx context.Context, r *computev1.GetCapabilitiesRequest) (*computev1.GetCapabilitiesResponse, error) {
	return play(ctx, d, "GetCapabilities", r, func() (*computev1.GetCapabilitiesResponse, error) { return proto.CloneOf(d.model.capabilities), nil })
}

// AuthenticateSandbox knows Bearer.
func (d *Driver) AuthenticateSandbox(ctx context.Context, r *computev1.AuthenticateSandboxRequest) (*computev1.AuthenticateSandboxResponse, error) {
	return play(ctx, d, "AuthenticateSandbox", r, func() (*computev1.AuthenticateSandboxResponse, error) {
		for id, one := range d.model.sandboxes {
			if r.GetCredential() == Bearer(id) {
				return &computev1.AuthenticateSandboxResponse{SandboxId: id, RuntimeIdentity: one.identity}, nil
			}
		}
		return nil, status.Error(codes.Unauthenticated, "sandbox credential was not accepted")
	})
}

// ValidateSandboxCreate accepts everything.
func (d *Driver) ValidateSandboxCreate(ctx context.Context, r *computev1.ValidateSandboxCreateRequest) (*computev1.ValidateSandboxCreateResponse, error) {
	return play(ctx, d, "ValidateSandboxCreate", r, func() (*computev1.ValidateSandboxCreateResponse, error) {
		return &computev1.ValidateSandboxCreateResponse{}, nil
	})
}

// GetSandbox reads the model.
func (d *Driver) GetSandbox(ctx context.Context, r *computev1.GetSandboxRequest) (*computev1.GetSandboxResponse, error) {
	return play(ctx, d, "GetSandbox", r, func() (*computev1.GetSandboxResponse, error) {
		if one := d.model.sandboxes[r.GetSandboxId()]; one != nil {
			return &computev1.GetSandboxResponse{Sandbox: proto.CloneOf(one.sandbox)}, nil
		}
		return nil, status.Error(codes.NotFound, "sandbox not found")
	})
}

// ListSandboxes reads the model.
func (d *Driver) ListSandboxes(ctx context.Context, r *computev1.ListSandboxesRequest) (*computev1.ListSandboxesResponse, error) {
	return play(ctx, d, "ListSandboxes", r, func() (*computev1.ListSandboxesResponse, error) {
		answer := &computev1.ListSandboxesResponse{}
		for _, one := range d.model.sandboxes {
			answer.Sandboxes = append(answer.Sandboxes, proto.CloneOf(one.sandbox))
		}
		return answer, nil
	})
}

// CreateSandbox begins the first run.
func (d *Driver) CreateSandbox(ctx context.Context, r *computev1.CreateSandboxRequest) (*computev1.CreateSandboxResponse, error) {
	return play(ctx, d, "CreateSandbox", r, func() (*computev1.CreateSandboxResponse, error) {
		if d.model.sandboxes[r.GetSandbox().GetId()] != nil {
			return nil, status.Error(codes.AlreadyExists, "sandbox already exists")
		}
		return &computev1.CreateSandboxResponse{RuntimeIdentity: d.create(r.GetSandbox())}, nil
	})
}

// StartSandbox begins a further run; it needs the bundle.
func (d *Driver) StartSandbox(ctx context.Context, r *computev1.StartSandboxRequest) (*computev1.StartSandboxResponse, error) {
	return play(ctx, d, "StartSandbox", r, func() (*computev1.StartSandboxResponse, error) {
		if len(r.GetLaunchAuthentication()) == 0 {
			return nil, status.Error(codes.FailedPrecondition, "launch_authentication: empty")
		}
		return d.start(r.GetSandboxId())
	})
}

// StopSandbox suspends.
func (d *Driver) StopSandbox(ctx context.Context, r *computev1.StopSandboxRequest) (*computev1.StopSandboxResponse, error) {
	return play(ctx, d, "StopSandbox", r, func() (*computev1.StopSandboxResponse, error) { return d.stopSandbox(r.GetSandboxId()) })
}

// DeleteSandbox removes, and the watch reports it.
func (d *Driver) DeleteSandbox(ctx context.Context, r *computev1.DeleteSandboxRequest) (*computev1.DeleteSandboxResponse, error) {
	return play(ctx, d, "DeleteSandbox", r, func() (*computev1.DeleteSandboxResponse, error) {
		return &computev1.DeleteSandboxResponse{Deleted: d.remove(r.GetSandboxId())}, nil
	})
}

// EnsureWorkspace does nothing.
func (d *Driver) EnsureWorkspace(ctx context.Context, r *computev1.EnsureWorkspaceRequest) (*computev1.EnsureWorkspaceResponse, error) {
	return play(ctx, d, "EnsureWorkspace", r, func() (*computev1.EnsureWorkspaceResponse, error) { return &computev1.EnsureWorkspaceResponse{}, nil })
}

// DeleteWorkspace does nothing.
func (d *Driver) DeleteWorkspace(ctx context.Context, r *computev1.DeleteWorkspaceRequest) (*computev1.DeleteWorkspaceResponse, error) {
	return play(ctx, d, "DeleteWorkspace", r, func() (*computev1.DeleteWorkspaceResponse, error) { return &computev1.DeleteWorkspaceResponse{}, nil })
}

// WatchSandboxes tells everything there is and then what happens.
func (d *Driver) WatchSandboxes(r *computev1.WatchSandboxesRequest, to grpc.ServerStreamingServer[computev1.WatchSandboxesEvent]) error {
	if step := d.take("WatchSandboxes", r); step != nil {
		if _, err := step(to.Context(), r); err != nil {
			return err
		}
	}
	s := newStream()
	d.mu.Lock()
	for _, one := range d.model.sandboxes {
		s.add(snapshot(one.sandbox))
	}
	d.streams[s] = true
	d.watches++
	d.news()
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.streams, s)
	}()
	return s.serve(to)
}
