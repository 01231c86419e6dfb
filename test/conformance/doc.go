// Package conformance holds a compute driver, any, to the contract between it and a gateway, RPC by RPC, from outside.
//
//	conformance.Run(t, target)                     // in a test: one subtest per check
//	results := conformance.Judge(ctx, target, how) // in a program: the same, as values
//
// A [Target] is a driver's address and the few things that the suite cannot do by itself: workspaces that may be used, launch bundles
// and a way to start clean. What else a target can do (say what is left at the platform, restart the driver, hand out a supervisor's
// credential) is asked for by interface; a check that needs what the target cannot do is reported as not made, never as passed.
//
// # Invariants
//
//   - A check has an id that does not change, names the section of the contract that it is from, and says what breaks at a gateway when
//     it fails. Required checks are those that a gateway relies on; the others are about defects of the original driver, and about what
//     its contract leaves open.
//   - Checks do not depend on each other: each works on sandboxes of its own, in a workspace of its own where the target has several,
//     and deletes them. Many run at once; those that disturb the driver run alone, after the others.
//   - A code is judged against all that the contract allows for the call, and a time is never judged: what has to happen is waited for
//     until the target's patience ends.
//   - Nothing is taken from a driver's messages but that they hold no secret, and that a refusal names the field.
//
// Callers: tests of the lifecycle daemon, and the command in cmd/conformance for the drivers of others.
package conformance
