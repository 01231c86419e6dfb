// Package inventory is resource admission (contract 2.4, 11.5): what a workload Pod would be attached to, whether a sandbox may
// have it, and whether it still is what it was when the sandbox was made.
//
// # Invariants
//
//   - The whole Pod is walked. What the walk does not know is refused: a field that no sandbox is rendered with, or that Kubernetes
//     gains tomorrow, is not passed over.
//   - Three answers about an object stay apart: it may be attached, it may not (FAILED_PRECONDITION), it could not be found out
//     (UNAVAILABLE). The zero [Look] was never made.
//   - The labels that are required are those of the settings; switching them off switches off nothing else. A claim that was made
//     for a sandbox's workspace may be another's only by such labels.
//   - An object is the same by its uid alone. One that the record does not name was never admitted.
//
// # Use
//
// [Policy.Attachments] names the objects of a Pod, the caller looks each of them up, [Policy.Judge] makes of each look the uid to
// record, and [Record.Encode] the annotation. At a restart the same is done with the template that stands, and [Record.Same]
// compares.
//
// The template of a Sandbox that stands is read by the Pod API of this program: fields that it does not know are not seen here.
// The Pod that comes of it is judged by supervisorctl once more.
//
// The package is pure. Callers: the driver's validate, create and start.
package inventory
