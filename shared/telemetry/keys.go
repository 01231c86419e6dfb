package telemetry

// Keys of log lines. A line has level and time always, daemon and component when
// it comes from a logger made by NewLogger and Component, and message. Units are
// part of the name.
const (
	// KeyTime is the instant the line was written: RFC 3339 with nanoseconds, UTC.
	KeyTime = "time"
	// KeyLevel is trace, debug, info, warn or error.
	KeyLevel = "level"
	// KeyMessage is the fixed text of the line; what varies is in other keys.
	KeyMessage = "message"
	// KeyError is the text of an error.
	KeyError = "error"
	// KeyDaemon is the name of the daemon, such as nswatch.
	KeyDaemon = "daemon"
	// KeyComponent is the part of the daemon that wrote the line.
	KeyComponent = "component"

	// KeyVersion and KeyCommit say which build runs.
	KeyVersion = "version"
	KeyCommit  = "commit"
	// KeyAddress is a network address or socket path.
	KeyAddress = "address"
	// KeyEndpoint is a configured remote address.
	KeyEndpoint = "endpoint"
	// KeyCause says why something was stopped or cancelled.
	KeyCause = "cause"
	// KeySignal is the name of an operating system signal.
	KeySignal = "signal"
	// KeyCount is how many times something happened.
	KeyCount = "count"
	// KeyDurationMS is elapsed time in milliseconds, with fraction.
	KeyDurationMS = "duration_ms"

	// KeyKind is the class of an error, as the label of its metric.
	KeyKind = "kind"
	// KeyGeneration counts the connections to a server that one process has made.
	KeyGeneration = "generation"
	// KeyClient says which of several clients of one server: calls or watches.
	KeyClient = "client"
	// KeyWarning is the text of a warning that a server sent.
	KeyWarning = "warning"

	// KeyTask is the name of a task of a task group.
	KeyTask = "task"
	// KeyStack is the stack of a goroutine that panicked.
	KeyStack = "stack"
	// KeyPanic is the value of a panic.
	KeyPanic = "panic"
	// KeyCheck is the name of a liveness or readiness check.
	KeyCheck = "check"

	// KeyGRPCMethod is the full method, "/package.Service/Method".
	KeyGRPCMethod = "grpc_method"
	// KeyGRPCCode is the name of a gRPC status code.
	KeyGRPCCode = "grpc_code"
	// KeyPeer is the address of the caller.
	KeyPeer = "peer"
	// KeyRequest is a request message, secrets redacted.
	KeyRequest = "request"
	// KeyTraceID is the W3C trace id, 32 hex digits.
	KeyTraceID = "trace_id"
)
