package control

import (
	"encoding/json"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/gateway"
)

// Operation is a method of the gateway.
type Operation string

// The operations, with the fields of Request that each reads.
const (
	Create          Operation = "create"           // ID, Workspace, Name, Spec, DriverConfig
	Start           Operation = "start"            // ID
	Stop            Operation = "stop"             // ID
	Delete          Operation = "delete"           // ID
	Get             Operation = "get"              // ID, or Workspace and Name
	List            Operation = "list"             // nothing
	Exec            Operation = "exec"             // ID, Command, Stdin
	Drop            Operation = "drop"             // ID; ends the session of its supervisor, which is waited for
	EnsureWorkspace Operation = "ensure-workspace" // Workspace
	DeleteWorkspace Operation = "delete-workspace" // Workspace
	Sweep           Operation = "sweep"            // nothing
	RotateKeys      Operation = "rotate-keys"      // nothing
)

// maxBody is the greatest size of a request.
const maxBody = 4 << 20

// Request is what an operation is about.
type Request struct {
	ID           string          `json:"id,omitempty"`
	Workspace    string          `json:"workspace,omitempty"`
	Name         string          `json:"name,omitempty"`
	Spec         json.RawMessage `json:"spec,omitempty"`          // a DriverSandboxSpec as protobuf's JSON
	DriverConfig json.RawMessage `json:"driver_config,omitempty"` // the envelope, an object per driver name
	Command      []string        `json:"command,omitempty"`
	Stdin        []byte          `json:"stdin,omitempty"`
}

// Reply is what came of it.
type Reply struct {
	Code      string            `json:"code"` // OK, or the gRPC code's name
	Message   string            `json:"message,omitempty"`
	Sandbox   *gateway.Sandbox  `json:"sandbox,omitempty"`
	Sandboxes []gateway.Sandbox `json:"sandboxes,omitempty"`
	Stdout    []byte            `json:"stdout,omitempty"`
	Stderr    []byte            `json:"stderr,omitempty"`
	Exit      *boundary.Exit    `json:"exit,omitempty"`
}

// err is the reply's error, a status.
func (r Reply) err() error {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == r.Code {
			return status.Error(code, r.Message)
		}
	}
	return status.Errorf(codes.Unknown, "%s: %s", r.Code, r.Message)
}
