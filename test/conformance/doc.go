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
//   - A check that did not meet with what it judges (no call could be cut short) is reported as not made.
//   - A code is judged against all that the contract allows for the call, and a time is never judged: what has to happen is waited for
//     until the target's patience ends. Only watch.republish lets time pass, to tell a repetition from an event that is told twice.
//   - Nothing is taken from a driver's messages but that they hold no secret, and that a refusal names the field.
//
// # What it does not decide
//
// Of these rules no check speaks, since a driver's calls do not show whether it keeps them:
//
//   - What a gateway alone does: to dial lazily and within 30 s (contract 2.1), and to compare policies (2.4).
//   - The socket (2.2): its mode and its owner are the deployment's, and another user's connection cannot be made without one.
//   - What becomes of fields that a driver may pass over (2.5: status, deleting, sandbox_token, await_main_process_attachment), of OPENSHELL_*
//     variables (7.5) and of labels that the driver writes last (4.3): a refusal is asked for, and its absence only advised against. Which labels
//     and claims a Pod then has is for tests of the driver with its platform.
//   - Faults of the platform: a create that the platform refuses half-way (2.6), namespaces that cannot be read (2.9), a watch of the platform's that
//     ends or expires (2.8), the codes of such faults (2.7), foreign and malformed objects. A target has no way to cause them. That a create leaves
//     nothing wherever it ends is reached by cancel.create, by its time, and by create.namesakes, by a race. Of a create that its caller left at the
//     moment it succeeded, the sandbox stays by right; so cancel.create finds what a driver does more often than not, and not what it does once.
//   - A stop that takes longer than its caller's patience (2.12): how long one takes cannot be set. cancel.stop cuts it at several points.
//   - Credentials other than a supervisor's of the present and the former run (6.1: of workload Pods, of other accounts, audiences and namespaces):
//     a Presenter has no others.
//   - How long a queue of a watch is: watch.slow lets some hundreds of events come, and a longer queue that loses what comes then is not found.
//
// Without an Inspector "nothing is left" is that GetSandbox and ListSandboxes do not know the sandbox.
//
// Callers: tests of the lifecycle daemon, and the command in cmd/conformance for the drivers of others.
package conformance
