// Package credentials makes what a run proves itself with: the gateway's signing keys, the launch bundle (contract 13.2) and its
// two tokens, signed with Ed25519 and bound to one generation and one epoch (contract 13.5).
//
// Invariants:
//
//   - Private keys and tokens are secret.Values; no error holds a part of them.
//   - A token lives an hour at most, which is as long as a boundary accepts.
//   - The newest key signs; the others only verify, and are in every bundle, so that a rotation disturbs no run.
//   - VerifyGateway grants only as its last step, and checks the signature before any claim is looked at.
//
// It is written from the contract and shares no code with those that judge its tokens (test/companions/bearer, the services).
//
// Callers: package gateway.
package credentials
