// Package driver is the compute driver as the gateway calls it (contract 1.1, 2): each RPC in the order of its steps, over parts
// that read, place, render, admit, make and watch.
//
// # Invariants
//
//   - A create that does not answer with an identity leaves nothing behind: what this call made is deleted by its uid, also when
//     the caller is gone, again and again for undoLimit; what could not be deleted then is deleted by Run, and what a process had made
//     that died is found by its mark and deleted by any. The gateway never cleans up after an error (contract 2.6). Two gaps stay, in
//     which a whole sandbox is left that is listed and can be deleted by its id, and that no token exchange takes for one of the
//     gateway's: the mark is off and the answer does not reach the gateway; or whether it is off is not known, and the process dies before
//     it could delete the object.
//   - NOT_FOUND, and a delete that says there was nothing, follow only from a consistent read of the cluster. A partial list is
//     an error (contract 2.9).
//   - Create, start and EnsureWorkspace ask the allowlist. The first two ask it once more right before they have something made, and,
//     with what the sandbox is attached to, again when the run stands and nobody has been told of it (contract 7.2 step 19): what is
//     refused then is undone. Get, list, stop and delete never ask it (contract 5.3): what runs where nobody may start any more must still
//     be seen and ended.
//   - Only what is in its place is acted on, and counts (snapshot.Placed): whoever may make objects elsewhere can copy labels. Of two in
//     their places only a start can tell which is meant, by the uid; a delete deletes both where they are of one workspace. All else is
//     refused until a person has removed one. So who may make Sandboxes in a namespace of the gateway's and learns an id can keep that
//     sandbox from being told of, stopped and deleted through the gateway, until the double is removed.
//   - One call at a time works on a sandbox id in this process. Between processes the API server decides, by names, uids and
//     resource versions.
//   - The answer to GetCapabilities is constant (contract 2.4).
//   - A refusal is one verdict: its code and its safe text go to the gateway, all of it to the log and the metrics. Which code a
//     kind of refusal has in which call stands in codes.go, after contract 2.7 (see below), and nowhere else. No text has a secret: bundles and
//     credentials are passed on and never read here, and what the API server quotes of an object is left out (package apistatus).
//
// # Where codes differ from contract 2.7
//
// docs/driver.md has every reason whose code is not the contract's, with why; a test computes them. In short:
//
//   - What could not be found out is UNAVAILABLE in CreateSandbox, StartSandbox, StopSandbox and ValidateSandboxCreate, also where the
//     contract has INTERNAL, or FAILED_PRECONDITION for an allowlist that is not loaded (5.3); so it is in EnsureWorkspace and
//     AuthenticateSandbox where that has PERMISSION_DENIED. A refusal that is known and one that is not have different codes.
//   - EnsureWorkspace and DeleteWorkspace, INTERNAL there for all but the allowlist: FAILED_PRECONDITION for what a person has to mend,
//     ownership conflicts among it; INVALID_ARGUMENT for WorkspaceInvalid; UNAVAILABLE for what passes. What is left, WorkspaceUnreadable,
//     is INTERNAL.
//   - GetSandbox and DeleteSandbox, INTERNAL there for errors of the cluster: FAILED_PRECONDITION for SandboxAmbiguous and
//     SandboxUnserved, which repeating does not change.
//   - ListSandboxes and WatchSandboxes: UNAVAILABLE for ViewNotCurrent and WatchBehind, after which the call is to be made again.
//   - RESOURCE_EXHAUSTED for TooManyCalls of another daemon, and DEADLINE_EXCEEDED or CANCELLED for CallEnded, which the contract does not
//     have.
//
// Gateways take each of these for a failure, as they would the contract's; the code and text tell people what to do.
//
// Nothing is remembered between calls but what is still to be deleted: what a repeated call finds is read from the cluster.
//
// Caller: the wiring of lifecycle, which serves it on the private socket and, for relays, in the mesh.
package driver
