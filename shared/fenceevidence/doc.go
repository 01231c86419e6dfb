// Package fenceevidence writes and reads what is known of the fence that a run was let go behind: the evidence of contract 13.4, as the
// annotation [runstate.AnnotationFenceEvidence] of a Sandbox holds it.
//
// Invariants:
//
//   - The digest is that of the files that the Pods of the run were given: whoever compares the two compares the same fence.
//   - What [Encode] makes, [Decode] takes, and it comes back the same. Decode takes nothing that is not complete.
//   - The zero Evidence proves nothing, and cannot be encoded.
//
// The package is pure. supervisorctl writes the annotation when it releases a run, lifecycle answers with it.
package fenceevidence
