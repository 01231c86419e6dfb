// Package claims reads from a JWT, without verifying it, which Pod it says it is bound to.
//
// # Invariants
//
//   - What is read decides nothing. It is a hint about what the TokenReview will name, good enough to begin a read early and
//     for nothing else; whoever presents a token writes its claims.
//   - No input makes it panic, and none makes it do more work than the size of the input allows.
//   - Anything odd is no hint: another form than a signed compact JWT, a claim that is there twice, a name that the cluster
//     would not take.
//
// The caller is package inquiry.
package claims
