// Package reconcile is the loop that keeps every companion set of one gateway (contract 7.13): always, with or without a gateway that
// watches, in the one process that leads.
//
// It watches the metadata of Sandboxes, boundary Services and all NetworkPolicies, and Pods as they are, and has package conduct look at a
// sandbox when something of it may have changed. Whatever is done is decided there, on live reads; this package only decides when to look. A look
// too many costs seven reads, and one too few is what the rest of this comment is about.
//
// # When a sandbox is looked at
//
//   - Something of it was made, changed or deleted since before its last look began, by whomever: at once, and at most once a second. A
//     released run that is not ready is looked at a quarter of a second after its Pods have come to be ready, when the controller has said
//     so too. Of one that only gets on, a look would see nothing: it is looked at after five seconds. Any other change, such as an edit or a
//     container that ended, is looked at when nothing more has changed for half a second, two seconds after it at the latest, or, when a
//     start was still at the Pod or the Sandbox, as of one that only gets on; and one by which the run has lost its fence, Service or a Pod
//     at once.
//     A changed fence concerns every sandbox of its namespace. So does any other policy, which may open it again; but nothing is to be
//     done about that save telling, so settled sandboxes are looked at one after another, at the rate of looks that nothing calls for.
//   - It is on its way, from one phase to another or out of the cluster: every resync.
//   - It was refused: after a pause that doubles. An object that could not be read says nothing, so its pause is shorter, and no
//     change shortens it.
//   - A start is under way, which Keep leaves to the call that is at it: when the record has stood still for [plan.IdleLimit].
//   - A Pod's image is not to be had: when the run has been released for [plan.ImageLimit].
//   - It is settled, and nothing has changed: every FullLook, at a random time.
//   - Its companions are there and it is not: after a grace for the garbage collector.
//
// The rule for settled sandboxes is what a thousand of them can be kept with: seven reads each every 30 s would be 230 a second. It is
// safe because what is not reported by a watch is found by the list after it. A watch that ends is followed by a list, whose
// differences count as changes; one that hangs is ended by the client's pings; while one fails, settled sandboxes are looked at more
// often; and what a cluster should forget to report is found by the next full look.
//
// # Invariants
//
//   - The cache never decides what is done, also not that a Sandbox is absent: the look that it leads to reads the Sandbox live.
//   - That a record has stood still is trusted only when a live read, made after the time had passed, shows the same record. A cache
//     that is behind can so make an abandoned start wait longer, and never takes one that is at work for abandoned.
//   - No Sandbox is worked on by two workers, and what changes while it is worked on is looked at afterwards.
//   - Objects of other gateways and of nobody are passed over. Companions are found by the uid of their owner, within their namespace.
//   - What opens a fence again is told by a metric, once per change by a line for each policy, also when the last sandbox has gone, and by
//     conduct with an Event on each Sandbox. It is never repaired: it may be meant.
//   - A look that panics has failed, and the next one is made.
//   - A term begins with nothing but its settings; what it was told is forgotten with it.
//
// Rights that it needs: list and watch on sandboxes, pods, services and networkpolicies, in the one namespace of shared mode and
// else in the cluster.
//
// Caller: the wiring of supervisorctl, through package leadership.
package reconcile
