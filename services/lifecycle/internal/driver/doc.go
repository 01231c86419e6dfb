// Package driver is the compute driver as the gateway calls it (contract 1.1, 2): each RPC in the order of its steps, over parts
// that read, place, render, admit, make and watch.
//
// # Invariants
//
//   - A create that does not answer with an identity leaves nothing behind: what this call made is deleted by its uid, also when
//     the caller is gone; what could not be deleted then, or was made by a process that died, is found by its mark and deleted
//     later (Run). The gateway never cleans up after an error (contract 2.6). One gap stays: when the mark is off and the answer
//     does not reach the gateway, a whole sandbox is left that is listed and can be deleted by its id, and that no token exchange
//     takes for one of the gateway's.
//   - NOT_FOUND, and a delete that says there was nothing, follow only from a consistent read of the cluster. A partial list is
//     an error (contract 2.9).
//   - Create, start and EnsureWorkspace ask the allowlist, the first two once more right before they write. Get, list, stop and
//     delete never do (contract 5.3): what runs where nobody may start any more must still be seen and ended.
//   - One call at a time works on a sandbox id in this process. Between processes the API server decides, by names, uids and
//     resource versions.
//   - The answer to GetCapabilities is constant (contract 2.4).
//   - A refusal is one verdict: its code and its safe text go to the gateway, all of it to the log and the metrics. Which code a
//     kind of refusal has in which call stands in codes.go, after contract 2.7, and nowhere else. No text has a secret: bundles and
//     credentials are passed on and never read here.
//
// Nothing is remembered between calls: what a repeated call finds is read from the cluster.
//
// Caller: the wiring of lifecycle, which serves it on the private socket and, for relays, in the mesh.
package driver
