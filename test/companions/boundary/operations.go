package boundary

import (
	"encoding/json"

	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
)

// The operations that the stand-ins know (contract 13.5 lists more).
const (
	OpAttach          = "attach"
	OpConfirm         = "confirm"
	OpStartAgent      = "start_agent"
	OpExec            = "exec"
	OpWait            = "wait"
	OpSignal          = "signal"
	OpTerminate       = "terminate"
	OpLoopbackConnect = "loopback_connect"
)

// Operation is what every request has; Open's caller reads it first.
type Operation struct {
	Operation string `json:"operation"`
}

// Attach asks the runtime to belong to this supervisor. Answered by Attached.
type Attach struct {
	Operation            string            `json:"operation"`
	SupervisorInstanceID string            `json:"supervisor_instance_id"` // one UUID per run of the supervisor
	Policy               json.RawMessage   `json:"policy"`                 // not looked at
	ResourceClaims       map[string]string `json:"resource_claims"`        // contract 13.4, all six
}

// Attached names the session that the runtime serves.
type Attached struct {
	SessionID  string `json:"session_id"`
	Generation string `json:"generation"`
}

// Confirm asks what the runtime measured. Answered by Confirmation.
type Confirm struct {
	Operation string `json:"operation"`
}

// Property is one measured property of the confinement.
type Property struct {
	Enforced  bool   `json:"enforced"`
	Mechanism string `json:"mechanism"`
}

// Confirmation is what the runtime measured about itself (contract 13.5).
type Confirmation struct {
	Generation                    string             `json:"generation"`
	Identity                      bootstrap.Identity `json:"identity"`
	FilesystemConfinement         Property           `json:"filesystem_confinement"`
	EgressInterception            Property           `json:"egress_interception"`
	RequestAttribution            Property           `json:"request_attribution"`
	PrivilegeFloor                Property           `json:"privilege_floor"`
	AuthenticatedSupervisor       string             `json:"authenticated_supervisor"` // the instance that attached
	SessionID                     string             `json:"session_id"`
	OuterFence                    bootstrap.Fence    `json:"outer_fence"`
	RuntimeExitTerminatesWorkload bool               `json:"runtime_exit_terminates_workload"`
	ResourceClaims                map[string]string  `json:"resource_claims"`
	BackendAudit                  string             `json:"backend_audit"`
}

// StartAgent starts the main process, once; asked again for the same command, it answers the same
// process. Answered by Started.
type StartAgent struct {
	Operation string   `json:"operation"`
	Command   []string `json:"command"`
	TTY       bool     `json:"tty"` // the stand-in has no terminals and runs the command without
	Workdir   string   `json:"workdir"`
}

// Started names a process.
type Started struct {
	ProcessID string `json:"process_id"`
}

// Exec runs a command whose input and output follow on the same stream. Answered by Started, then by
// stream frames up to Exited. When the stream ends early, the command's process group is killed.
type Exec struct {
	Operation string            `json:"operation"`
	Command   []string          `json:"command"`
	Env       map[string]string `json:"env"` // on top of child_env
	Workdir   string            `json:"workdir"`
	ExpiresAt int64             `json:"expires_at_ms"` // Unix milliseconds; not begun any more after that
}

// Wait waits for the end of a process. Answered by Exit.
type Wait struct {
	Operation string `json:"operation"`
	ProcessID string `json:"process_id"`
}

// Exit is how a process ended.
type Exit struct {
	Code   int `json:"code"`   // -1 when a signal ended it
	Signal int `json:"signal"` // 0 when it exited by itself
}

// Signal sends a signal to a process's group. Answered by an empty object.
type Signal struct {
	Operation string `json:"operation"`
	ProcessID string `json:"process_id"`
	Signal    int    `json:"signal"`
}

// Terminate asks a process's group to end, and kills it after the grace. Answered by Exit.
type Terminate struct {
	Operation   string `json:"operation"`
	ProcessID   string `json:"process_id"`
	GraceMillis int64  `json:"grace_ms"`
}

// LoopbackConnect connects to a port that something in the workload listens on. Answered by an empty
// object, then by stream frames: Stdin towards the port, Stdout from it, StdinClosed to half-close,
// Exited when it closes.
type LoopbackConnect struct {
	Operation string `json:"operation"`
	Port      uint16 `json:"port"`
}
