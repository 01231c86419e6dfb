// Package plan decides the next step for the companion set of one sandbox: the fence, the boundary Service, the supervisor Pod,
// the Secrets of a generation and the workload Pod that the Agent Sandbox controller makes (contract 7).
//
// It takes what was seen of the objects and what is wanted, and answers with one [Step]: something to do, something to wait for,
// that all is done, or a refusal. Whoever executes steps looks, asks, executes and asks again; all that it may remember from one
// step to the next is in [Attempt]. So any process may die after any step, and whoever asks next, with the same goal or with
// [Keep], is told what is left. After a refusal with Undo it goes on with [Want.Undone].
//
// # Invariants
//
//   - A workload's gate is lifted only when its fence was seen standing as recorded, the admitted Pod passed every check, the Pods
//     are recorded, and the supervisor is ungated (contract 7.2). A supervisor's gate is lifted only when this attempt is the
//     recorded one and made the Secrets, for these Pods, this fence and this Service. A gate that the recorded attempt knows to be
//     lifted too early ends the start.
//   - What could not be seen is never taken for absent: it is a refusal that may be repeated, and while a run is kept it changes
//     nothing, also not its readiness (contract 7.13). What is known to be lost counts before what is not known.
//   - Objects are ours by uid of their owner. One that has our name and another owner is reported and left alone, and does not keep
//     a sandbox from being removed. What is deleted or ungated is named by its uid.
//   - A stop takes the supervisor first, then the workload, then the Secrets, and is complete only when both Pods are gone and,
//     where the controller can say so, it says that the Sandbox is suspended (contract 7.10). A restart whose run was stopped after
//     it was begun does not begin it again: the stop came later.
//   - Why a run was ended that nobody asked to end is in the record, until the next one is begun.
//   - A foreign policy that opens the fence again is reported by whoever has the facts, and changes no step: the fence is what it must be.
//   - A settled sandbox needs no step: the same facts that came out of Done lead to Done again, without a write, whatever becomes
//     of the fence (contract 14.2 "3525").
//   - A record that could not be read again is not written.
//   - The zero [Facts], [Known] and [Goal] lead to a refusal.
//
// # Two attempts at one run
//
// The Secrets of a run cannot be read back, so two attempts must not make them at the same time: the keys of one would meet the
// certificates of the other. An attempt writes its name into the record, with the resourceVersion it saw, before it makes them. Another
// attempt may take over only when it has watched the former for longer than a call may last, which it may as long as no Pod can have
// read them: until the supervisor's gate is lifted. It then begins the Secrets afresh, for a supervisor Pod of its own: the
// former's last write may still come, and could be the one that lifts the former Pod's gate.
//
// # Whose Secrets
//
// Nobody may read a Secret, so nobody can look whose it is that has the name of one of ours, and the runs of a sandbox share the names
// (contract 4.2). What is deleted is therefore named by its uid, which the answer to its creation told, and which the record keeps of
// a released run. A Secret of which nobody knows the uid, since whoever made it died, goes with the Pods that own it, which a stop
// removes first: the garbage collector takes what is ours and nothing else. A run that finds one in its way waits for that, and is
// refused and undone when it stays. One that takes over from an attempt which died between its first Secret and its supervisor's gate is
// refused and undone at once: the workload Pod, which is recorded and stays, owns the one that is in the way.
//
// # Runs that are not ready
//
// What keeps a released run from being ready is told at once by whoever has the facts. The run is ended for it at once only when it does
// not go away by itself: the name of an image that is none, or an image that may not be pulled. One that the registry says it does not
// have, or does not give, has [ImageLimit]. All else may heal and has the time of [ReadyLimit]: a registry that is away, a claim that is
// bound late, a node that is added, a supervisor whose gateway starts after it. Then the run is ended with what was said last.
//
// # Supervisors that end
//
// The supervisor Pod's containers are replaced in place, so that its uid, which the gateway has stored, stays. Until a run is ready
// that is all there is to it, within [ReadyLimit]. Afterwards a supervisor that was ever replaced and is not ready ends the run: a
// boundary is attached to once. A workload that ends by itself ends a run only before it is ready; afterwards the controller's word
// about it must stay to be seen.
//
// The package is pure. Its caller executes the steps for calls and for the reconcile loop.
package plan
