package conformance

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
)

// Target is a driver and what surrounds it. Its methods are called from many goroutines at once.
type Target interface {
	// Conn leads to the driver's service under its usual names.
	Conn() grpc.ClientConnInterface
	// Workspace is one that sandboxes may be created in. Each call may give another, or always the same.
	Workspace(ctx context.Context) (string, error)
	// Bundle makes the launch credentials of a run (contract 13.2).
	Bundle(run credentials.Run) (secret.Value, error)
	// Reset removes every sandbox that the suite made. It is called before the first check and after the last.
	Reset(ctx context.Context) error
}

// Forbidder is a Target with workspaces that may not be used, as those outside of an operator's allowlist.
type Forbidder interface {
	// Forbidden is one; it exists as far as a workspace can.
	Forbidden(ctx context.Context) (string, error)
}

// Inspector is a Target that can look at the platform past the driver.
type Inspector interface {
	// Objects names what there is at the platform of the sandbox with an id, and of any sandbox in a workspace when the id is empty.
	// What stays when a sandbox goes, as a network policy of all sandboxes, is not named.
	Objects(ctx context.Context, workspace, id string) ([]string, error)
	// Runs reports whether anything of the sandbox's run is still there: a process, a container, a Pod.
	Runs(ctx context.Context, workspace, id string) (bool, error)
}

// Disturber is a Target whose driver can be killed.
type Disturber interface {
	// Disturb kills the driver as a crash does and starts it again. It returns when the new one has been started, which may be before it
	// answers.
	Disturb(ctx context.Context) error
}

// Toucher is a Target that can change the platform's record of a sandbox in a way that means nothing, as a controller's report does.
type Toucher interface {
	// Touch changes it once.
	Touch(ctx context.Context, workspace, id string) error
}

// Presenter is a Target that can present what a sandbox's supervisor would.
type Presenter interface {
	// Credential is what the supervisor of the sandbox's present run authenticates with.
	Credential(ctx context.Context, workspace, id string) (secret.Value, error)
}

// Patient is a Target that says how long to wait for what has to happen; others get DefaultPatience.
type Patient interface {
	Patience() time.Duration
}

// DefaultPatience is enough for a stop that waits twice for half a minute (contract 2.12).
const DefaultPatience = 90 * time.Second
