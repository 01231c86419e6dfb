// Package verdict is the mesh's answer to "may this happen": granted, denied, or could not be found
// out, with a stable reason code and an explanation.
//
// The invariant: only Grant makes a Decision that grants. The zero Decision, a Decision with a reason
// nobody has registered and anything read from the wire refuse. "Denied" and "unknown" never share a
// gRPC code, so a caller that sees only the code still knows which it was.
//
// Every refusal has two texts. Message is safe for whoever asked; Explain is for the log and the
// audit event and may name objects and settings. Err carries both across the mesh, the explanation
// in a portcullis.verdict.v1.Refusal; SafeErr carries the code and the message only and is what the
// gateway gets. Neither text may hold a secret.
//
// The package is pure: no I/O, no clock, no logger. The allowlist reader, tokenauth and the RPC layer
// make decisions, package audit keeps them; any daemon of the mesh that calls another can read them back
// with FromError.
package verdict
