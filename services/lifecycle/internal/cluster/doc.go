// Package cluster makes and deletes Sandbox objects, and looks at what their creation rests on, one step for each method.
//
// # Invariants
//
//   - What is made is told apart from what was there by the generation that it records: that is random, so an object that has it
//     is the one that this call made, also when the answer to the request was lost (contract 7.2 step 8).
//   - A delete names the uid. Success means that the object with that uid is gone or going, never that another one is: a conflict
//     is looked into and not taken for absence (contract 7.12 "[O]").
//   - A create whose answer has not been given is marked by a label. What died before it took the label away is deleted by
//     whoever finds it long after, see Abandoned, and only as it was found: whoever wrote to it meanwhile may have taken the label off.
//   - Labels are whatever their author wrote. What is found by them alone is acted on only in a place where this gateway has sandboxes.
//   - Only the API server's own word that there is no such object is absence.
//
// Callers: package driver; its reaper for abandoned creates.
package cluster
