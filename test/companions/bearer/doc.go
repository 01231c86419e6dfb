// Package bearer judges the token by which a supervisor shows the runtime who it is (contract 13.5).
//
// Invariant: Verify is pure and grants only as its last step; the signature is checked before any
// claim is looked at, and no error holds a part of the token.
//
// Caller: the stand-in runtime, for every stream.
package bearer
