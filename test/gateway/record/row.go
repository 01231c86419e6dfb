package record

import (
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

// The annotations that bind a row to what runs (contract 2.13).
const (
	AnnotationDriver   = "internal.openshell.ai/compute-driver"
	AnnotationIdentity = "internal.openshell.ai/compute-runtime-identity"
)

// Row is a sandbox as the gateway knows it.
type Row struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Workspace string `json:"workspace"`
	Version   uint64 `json:"version"`        // the store's: the resource version
	Spec      []byte `json:"spec,omitempty"` // an encoded DriverSandboxSpec, without secrets

	State
	Run Run `json:"run"`

	Annotations map[string]string `json:"annotations,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	// Before is the state to go back to when the operation under way fails, nil when there is none.
	Before *State `json:"before,omitempty"`
}

// State is what operations change and may have to restore.
type State struct {
	Phase      phase.Phase       `json:"phase"`
	Cause      phase.Cause       `json:"cause,omitempty"`
	Message    string            `json:"message,omitempty"` // why it is in Error
	Conditions []phase.Condition `json:"conditions,omitempty"`
	Backend    phase.Status      `json:"backend,omitzero"` // what the driver said last
	// Deadline is when provisioning is given up, zero when nothing is awaited.
	Deadline time.Time `json:"deadline,omitzero"`
	// Reclaimed says that what a timed out provisioning left behind was stopped.
	Reclaimed bool `json:"reclaimed,omitempty"`
}

// Run is the identity of the present or next run (contract 2.6, 13.2).
type Run struct {
	SessionID  string `json:"session_id"`
	Generation string `json:"generation"`
	Rotation   uint64 `json:"rotation"`
	AuthEpoch  uint64 `json:"auth_epoch"`
}

// Generation is the name of the runtime generation that begins with a resource version (contract 2.6).
func Generation(version uint64) string { return fmt.Sprintf("g%016x", version) }

// Workspace is a workspace that the driver was asked for.
type Workspace struct {
	Name        string `json:"name"`
	Terminating bool   `json:"terminating,omitempty"`
}
