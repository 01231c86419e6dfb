// Package excerpt cuts texts of others to what may be kept, logged or sent.
//
// # Invariants
//
//   - What it returns is valid UTF-8 whatever it is given, also when the cut goes through a character: one invalid byte would make a whole
//     answer one that cannot be sent.
//   - It is bounded in bytes.
//
// Callers: every package of lifecycle that repeats what a user or a cluster has said.
package excerpt
