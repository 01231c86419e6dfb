// Package supervisor is the stand-in openshell-supervisor: what runs in the supervisor Pod and holds
// the two ends together, the runtime's and the gateway's (contract 7.6, 13.5).
//
// Invariants of a Supervisor:
//
//   - It speaks only to the pinned addresses, and only to who shows a certificate of the session's CA
//     for the session's name.
//   - It is ready only while a runtime is connected whose confirmation equals the descriptor: the
//     generation, the session, the identity, all claims and the outer fence. What differs ends the
//     supervisor: a second look would show the same.
//   - Who cannot be reached yet, runtime or gateway, is tried again, in growing intervals up to a
//     bound, for many minutes (contract 14.3, 3274); only then the supervisor gives up.
//   - The token file is read anew for every exchange: the kubelet replaces it.
//
// It starts the main process as soon as the runtime is confirmed, before the gateway is there. When it
// is stopped, it terminates the main process first.
//
// Callers: cmd/openshell-supervisor and tests.
package supervisor
