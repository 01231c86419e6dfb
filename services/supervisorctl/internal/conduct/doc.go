// Package conduct carries a goal for one companion set out: it looks at the objects, asks package plan for the next step, executes
// it, and asks again, until the goal is reached or refused.
//
// # Invariants
//
//   - It decides nothing: what is done is a step of the planner, and nothing is kept from one call to the next but for how long
//     another attempt was seen unchanged, and the uid of a namespace with that of the policy in it, which proves it as often as it is seen.
//   - In one process, one goal is worked on for a Sandbox at a time. Between processes the record decides: by the resourceVersion that it
//     was read with or, of a start, by all of the Sandbox but its status.
//   - A start whose call waits for its turn in this process is not taken for abandoned by its reconcile loop. The loop of another process
//     does not know of the call, and may.
//   - What a write answered replaces what was seen. A write that rests on what is no longer so leads to a new look, and is never
//     repeated as it was.
//   - What Secrets and gates rest on is read again right before they are made and lifted: the fence, and before the Secrets the whole set.
//     Of a Pod the gate is lifted only in the version that was seen.
//   - What is not read before a create is not taken for absent by anything but that create.
//   - What is waited for is looked at. A watch only says when, and is not waited for alone.
//   - Nothing that Keep does waits for an object: the reconcile loop has another look. When it begins a stop, its outcome says why.
//   - What the cluster refuses, and what a setting or a template keeps from being made, is a refusal at once; what it does not answer
//     is tried a few times. The end of the call, or of the attempt, is told as such.
//   - An attempt makes no request later than attemptLimit after it wrote the Pods, with its name, into the record, so whoever has seen these
//     unchanged for longer may take over.
//   - When a refusal leaves something of the run behind, it is taken away before the refusal is returned, also when the caller has
//     gone; what that does not achieve within undoLimit, the reconcile loop does, which finds the stop and its reason in the record.
//   - A Secret is deleted by its name and the uid that the answer to its creation told, and never by its name alone: one that may have been
//     made unheard goes with the Pod that owns it.
//   - Events on Sandboxes are told as well as can be, by [Conductor.Run]: they keep nobody waiting, are bounded in rate and number, and
//     what the API server took is not told again for a while. Which policies open a fence is told by the loop alone, and only when it is
//     another set than was told before, so that sandboxes at rest cost no write. Nothing is decided by Events.
//   - Private keys and tokens are wiped when the Secrets are made, or could not be, on every path; the bundle is its owner's to wipe.
//   - Each step is a metric and a span, of the trace that the call belongs to if there is one; both say how it ended, and neither why in words.
//   - A released Pod is compared with what it was released with: its images are noted on it with the removal of its gate.
//   - What panics in a goroutine of a goal panics in the goal's own, as a [Panic].
//
// Callers: package service for calls, package reconcile for the loop.
package conduct
