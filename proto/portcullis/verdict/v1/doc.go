// Package verdictv1 is the explanation that travels with a refusal inside the mesh. It has no way to
// say yes and carries nothing secret. Daemons use it through shared/verdict, which checks what comes
// from the wire.
//
// Everything but this file is generated from verdict.proto.
package verdictv1
