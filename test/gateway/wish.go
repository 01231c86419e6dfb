package gateway

import (
	"crypto/rand"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// Wish is a sandbox that a user asks for.
type Wish struct {
	// ID is the gateway's to choose; a random UUID when it is empty.
	ID              string
	Workspace, Name string
	// Spec is passed on as it is, but for what the gateway makes itself: secrets, driver_config and
	// await_main_process_attachment must not be set.
	Spec *computev1.DriverSandboxSpec
	// DriverConfig is the caller's envelope: one object per driver name (contract 2.5).
	DriverConfig *structpb.Struct
	// AwaitAttachment sets await_main_process_attachment.
	AwaitAttachment bool
}

// spec returns what is stored, or why the wish is refused (contract 2.5).
func (g *Gateway) spec(w Wish) (*computev1.DriverSandboxSpec, error) {
	for _, field := range []struct{ name, value string }{{"workspace", w.Workspace}, {"name", w.Name}} {
		if field.value == "" {
			return nil, status.Errorf(codes.InvalidArgument, "%s: empty", field.name)
		}
	}
	spec := proto.CloneOf(w.Spec)
	if spec == nil {
		spec = &computev1.DriverSandboxSpec{}
	}
	if spec.GetSandboxToken() != "" || len(spec.GetLaunchAuthentication()) > 0 || spec.GetAwaitMainProcessAttachment() ||
		len(spec.GetTemplate().GetDriverConfig().GetFields()) > 0 {
		return nil, status.Error(codes.InvalidArgument,
			"spec: sandbox_token, launch_authentication, await_main_process_attachment and template.driver_config are the gateway's")
	}
	chosen, err := g.driverConfig(w.DriverConfig)
	if err != nil {
		return nil, err
	}
	if chosen != nil {
		if spec.Template == nil {
			spec.Template = &computev1.DriverSandboxTemplate{}
		}
		spec.Template.DriverConfig = chosen
	}
	return spec, nil
}

// driverConfig chooses this driver's part of the envelope, and keeps the gate of contract 2.5.
func (g *Gateway) driverConfig(envelope *structpb.Struct) (*structpb.Struct, error) {
	given, ok := envelope.GetFields()[g.config.DriverName]
	if !ok {
		return nil, nil
	}
	object, ok := given.GetKind().(*structpb.Value_StructValue)
	if !ok {
		return nil, status.Errorf(codes.InvalidArgument, "driver_config.%s: not an object", g.config.DriverName)
	}
	if len(object.StructValue.GetFields()) == 0 {
		return nil, nil
	}
	if !g.config.Policy.AllowDriverConfig {
		return nil, status.Error(codes.FailedPrecondition, "driver_config: caller driver config is disabled; the operator allows it with allow_driver_config")
	}
	return proto.CloneOf(object.StructValue), nil
}

// described is a row as the driver is told of it, without secrets (contract 2.5).
func described(row record.Row) (*computev1.DriverSandbox, error) {
	spec := &computev1.DriverSandboxSpec{}
	if err := proto.Unmarshal(row.Spec, spec); err != nil {
		return nil, fmt.Errorf("the spec of sandbox %q in the records is damaged: %w", row.ID, err)
	}
	sandbox := &computev1.DriverSandbox{Id: row.ID, Name: row.Name, Workspace: row.Workspace, Spec: spec}
	if deleting := row.Phase == phase.Deleting; deleting || len(row.Conditions) > 0 {
		sandbox.Status = &computev1.DriverSandboxStatus{Deleting: deleting}
		for _, c := range row.Conditions {
			told := &computev1.DriverCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
			if !c.Since.IsZero() {
				told.TransitionTime = timestamppb.New(c.Since)
			}
			sandbox.Status.Conditions = append(sandbox.Status.Conditions, told)
		}
	}
	return sandbox, nil
}

// launchable is a row as CreateSandbox gets it, with the run's credentials.
func (g *Gateway) launchable(row record.Row, await bool) (*computev1.DriverSandbox, error) {
	sandbox, err := described(row)
	if err != nil {
		return nil, err
	}
	run := runOf(row)
	token, _, err := g.authority.Load().SandboxToken(run)
	if err != nil {
		return nil, err
	}
	defer token.Wipe()
	bundle, err := g.authority.Load().Bundle(run)
	if err != nil {
		return nil, err
	}
	defer bundle.Wipe()
	// Where they leave for the driver.
	sandbox.Spec.SandboxToken, sandbox.Spec.LaunchAuthentication = string(token.Expose()), bundle.Expose()
	sandbox.Spec.AwaitMainProcessAttachment = await
	return sandbox, nil
}

// bundle makes the credentials of a start.
func (g *Gateway) bundle(row record.Row) (secret.Value, error) {
	return g.authority.Load().Bundle(runOf(row))
}

func runOf(row record.Row) credentials.Run {
	return credentials.Run{
		SandboxID: row.ID, SessionID: row.Run.SessionID, Generation: row.Run.Generation, Rotation: row.Run.Rotation, AuthEpoch: row.Run.AuthEpoch,
	}
}

// newUUID returns a random UUID in its canonical form.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
