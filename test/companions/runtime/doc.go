// Package runtime is the stand-in openshell-sandbox: what runs in the workload Pod in front of the
// command (contract 7.5, 13.3 to 13.5).
//
//	Prepare    the bootstrap subcommand: puts the program and the one-use files into the Pod's memory
//	Seed       the seed-workspace subcommand: fills an empty workspace once
//	Runtime    the agent: serves the boundary and runs the command
//
// Invariants of a Runtime:
//
//   - Only TLS 1.3 with the leaf, and only a bearer that package bearer accepts, reaches an operation.
//   - Nothing runs before a supervisor attached with all six claims, the workload Pod's uid being also
//     the one in the downward API's file, and confirmed on the same connection.
//   - One supervisor instance owns the runtime until the end; it may attach again, no other may.
//   - A command sees child_env and nothing of the runtime's environment. The files of the bootstrap are
//     removed before anything runs, where their mount allows that.
//   - What the runtime started ends with it, also when it is killed.
//
// It confines nothing: no Landlock, no egress mediation, no terminals, and it says so in its
// confirmation. What it proves is the material and the channel. It does not reap orphans, whose
// zombies stay until its Pod ends.
//
// Callers: cmd/openshell-sandbox and tests.
package runtime
