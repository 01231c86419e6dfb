// Package gateway is a reference gateway: the gateway's half of the compute driver contract, written from the contract alone
// and honest about its details. It is what the demo embeds and what end-to-end tests drive a driver with.
//
//	records, err := record.Open(path, record.Options{Patience: time.Second})
//	g, err := gateway.New(gateway.Config{Socket: socket, DriverName: "kubernetes", ...}, records)
//	server := grpc.NewServer(gateway.ServerOption()...)
//	g.Register(server)                         // what supervisors dial
//	go func() { ended <- g.Run(ctx) }()        // handshake, recovery, watch, sweep, deadlines
//	s, err := g.Create(ctx, gateway.Wish{Workspace: "team-a", Name: "box", Spec: spec})
//	s, err = g.AwaitPhase(ctx, s.ID, phase.Ready)
//	out, err := g.Exec(ctx, s.ID, []string{"/tool", "echo", "hi"}, nil)
//
// # Invariants
//
//   - The store is authoritative: nothing is adopted from the driver, and what a row says was committed before anybody is told.
//   - A row is changed only by compare-and-set on its resource version.
//   - A process may die between any two lines. What a new one finds, it finishes by the rules of contract 2.6: Stopping rows
//     are stopped again, Starting rows are asked for with an empty bundle, deadlines go on.
//   - The credential bundle of a run and its tokens are in no record, event, error or log.
//   - Every wait goes by the Clock, so that a test moves time and never sleeps.
//
// # Files, by the section of the contract that they keep
//
//	create.go start.go stop.go delete.go   2.6, one operation each, with its compensation
//	workspace.go                           2.6 EnsureWorkspace, DeleteWorkspace
//	recover.go                             2.6 what a restart finishes
//	watch.go sweep.go                      2.8, 2.9
//	deadline.go                            2.12 provisioning window and reclaim
//	observe.go                             2.10, 2.11 applied to a row (the rules are package phase)
//	supervisors.go                         6.6 token exchange, 13.5 tokens, sessions
//	events.go                              what a test or a demo sees of all that
//
// # What follows from the contract and surprises
//
//   - The watch is strictly sequential, and a snapshot of a Starting row waits for the start: a slow start holds back the news of
//     every other sandbox (2.8).
//   - A snapshot of a beginning that comes behind a stop moves the row from Stopped to Provisioning, until the next one (2.11).
//   - A DeleteSandbox that fails as a compensation, when the row is gone, leaks; it is told as CompensationFailed (2.6).
//   - A Deleted event that no watch was open for is made up for by the sweep, when the row is five minutes old (2.9).
//
// # Decisions where the contract is silent
//
//   - The lifecycle gate of a sandbox is held by Start, Stop and Delete and not by Create, so that a delete may overtake a
//     create: the create's binding then fails and it compensates.
//   - Create ensures the workspace only when the gateway has no record of it ("on use"). Later creates reach CreateSandbox, so
//     that a namespace that left the allowlist is refused there, with FAILED_PRECONDITION.
//   - A failed start keeps the row Starting while the driver reports a backend that is not stopped, since the answer may have
//     been lost; a further Start reuses the run's identity. In every other case the former row is restored.
//   - Rows found Deleting at start-up are deleted again, which the contract does not mention and no driver can notice.
//   - A supervisor counts as connected when its session is open and it has announced a confirmed runtime: before that, no
//     command would run.
//   - A run has its own session id, with rotation 1.
//   - Of several gateways on one store the one that holds the lease also minds deadlines and recovers; who holds it is configured
//     (Config.Standby). The lifecycle gates are each gateway's own, so between two of them the rows and the driver decide.
//
// # Left out
//
// Policies and their Configuration conditions, gateway_manages_lifecycle (refused at the handshake), the lease between several gateways
// on one store, and the public API itself: callers use Go.
//
// # Packages
//
//	phase        what a status means, pure
//	record       the store
//	credentials  keys, bundles, tokens
//	driver       dialling, handshake, acknowledgement
//	clock        the time
//	settings     the gateway's part of the settings file
//	control      a running gateway for another process
//	scripted     a driver that plays a script, for tests of a gateway
//	cmd/gateway  all of it as a program
//	cmd/door     leads a test to the sockets in a gateway's Pod
//
// Callers: the demo, end-to-end and conformance tests, cmd/gateway.
package gateway
