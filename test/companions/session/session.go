package session

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// The gRPC service and its methods.
const (
	Service       = "portcullis.test.companions.v1.Gateway"
	MethodIssue   = "/" + Service + "/IssueSandboxToken"
	MethodSession = "/" + Service + "/Session"
)

// MaxMessage is the greatest size of a message.
const MaxMessage = 256 << 10

// IssueRequest asks for a token for a sandbox. The bearer is the projected ServiceAccount token.
type IssueRequest struct {
	SandboxID string `json:"sandbox_id"`
}

// Issued holds the token that opens a session.
type Issued struct {
	Token string `json:"token"`
}

// Op is what the gateway wants.
type Op string

// The operations. Stdin and StdinClosed belong to the Exec or Connect with the same id; Cancel ends it.
const (
	Exec        Op = "exec"
	Connect     Op = "connect"
	Wait        Op = "wait"
	Signal      Op = "signal"
	Terminate   Op = "terminate"
	Stdin       Op = "stdin"
	StdinClosed Op = "stdin_closed"
	Cancel      Op = "cancel"
	Welcome     Op = "welcome" // the first message of a session that was accepted
)

// Down is a message of the gateway.
type Down struct {
	ID          string            `json:"id"` // one per operation
	Op          Op                `json:"op"`
	Command     []string          `json:"command,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	ProcessID   string            `json:"process_id,omitempty"`
	Signal      int               `json:"signal,omitempty"`
	GraceMillis int64             `json:"grace_ms,omitempty"`
	Port        uint16            `json:"port,omitempty"`
	Data        []byte            `json:"data,omitempty"`
}

// Event is what the supervisor tells.
type Event string

// The events. Confirmed and MainExited belong to no operation; Exited, Done and Failed end theirs.
const (
	Confirmed  Event = "confirmed"
	MainExited Event = "main_exited"
	Started    Event = "started"
	Stdout     Event = "stdout"
	Stderr     Event = "stderr"
	Exited     Event = "exited"
	Done       Event = "done"
	Failed     Event = "failed"
)

// Up is a message of the supervisor.
type Up struct {
	ID           string                 `json:"id,omitempty"`
	Event        Event                  `json:"event"`
	ProcessID    string                 `json:"process_id,omitempty"` // with Confirmed that of the main process
	Data         []byte                 `json:"data,omitempty"`
	Exit         *boundary.Exit         `json:"exit,omitempty"`
	Failure      *boundary.Failure      `json:"failure,omitempty"`
	Confirmation *boundary.Confirmation `json:"confirmation,omitempty"`
}

// Codec encodes messages as JSON.
type Codec struct{}

// Marshal encodes.
func (Codec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal decodes.
func (Codec) Unmarshal(b []byte, v any) error { return json.Unmarshal(b, v) }

// Name is the content subtype.
func (Codec) Name() string { return "json" }

// Issue exchanges the bearer in ctx's metadata for a session's token.
func Issue(ctx context.Context, cc grpc.ClientConnInterface, req IssueRequest) (Issued, error) {
	var out Issued
	err := cc.Invoke(ctx, MethodIssue, &req, &out, options()...)
	return out, err
}

// Client is the supervisor's end of a session. One goroutine may send while another receives.
type Client struct{ stream grpc.ClientStream }

// Open opens a session with the token in ctx's metadata. It ends with ctx.
func Open(ctx context.Context, cc grpc.ClientConnInterface) (Client, error) {
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{StreamName: "Session", ServerStreams: true, ClientStreams: true}, MethodSession, options()...)
	return Client{stream}, err
}

// Send sends a message.
func (c Client) Send(m Up) error { return c.stream.SendMsg(&m) }

// Receive returns the next message.
func (c Client) Receive() (Down, error) {
	var m Down
	err := c.stream.RecvMsg(&m)
	return m, err
}

func options() []grpc.CallOption {
	return []grpc.CallOption{grpc.ForceCodec(Codec{}), grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)}
}

// Accepted waits until the gateway has accepted the session.
func (c Client) Accepted() error {
	m, err := c.Receive()
	if err == nil && m.Op != Welcome {
		err = fmt.Errorf("session: %q where %q belongs", m.Op, Welcome)
	}
	return err
}
