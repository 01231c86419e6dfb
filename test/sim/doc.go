// Package sim plays the allowlist protocol through schedules that no test would think of, and judges every answer.
//
// A schedule is one run of everything: a source that changes, two or three processes of nswatch of which one leads, a
// broker, two or three readers, and faults. The machines of shared/allowlist are the real ones, through their exported
// names only; everything around them is simulated. There is no goroutine, no clock and no network: one agenda holds
// what is to happen, in simulated time, and one seeded generator decides everything, so that a seed has one schedule.
// The protocol's text is the model here, not the code under test.
//
// # Invariants
//
// After every event every reader is asked about every name, names among them that were never in the source. The judge
// knows the truth: for every name, with its uid, the spans of true time in which it was in the source.
//
//  1. [NoStaleGrant]: a yes to a name implies that it was in the source within the bound before.
//  2. [NoResurrection]: after a no at some epoch and revision there is no yes from an older one, over restarts too when
//     the reader has a disk.
//  3. [NoWidening]: there is no yes to what was never in the source, whatever anyone without the key stores or sends.
//  4. [NoSplit]: of two readers that are Fresh at the same epoch and revision, none says yes where the other says
//     not_listed, or yes with another uid.
//  5. [Liveness]: when the faults have ended, every reader is Fresh and right about every name within a time that
//     follows from the settings, without a restart. The source changes twice in that time.
//  6. [Fencing]: in the bucket, no write takes the place of a later one, and no beat comes before the snapshot of its
//     epoch (rules W1, W2). A broker that gives a sequence twice can break this; the readers hold nevertheless.
//
// # The bound
//
// It is computed anew for every yes, from what happened, in true time. A reader may rest on a beat that it accepted,
// until max_staleness after its issue, and longer by how wrong its idea of that issue can be: by the transit of the
// quickest beat that it has accepted in the epoch, plus 400 millionths of the time since (the drift of two clocks, and
// what rule R3 allows for it), plus what its own monotonic clock lost unnoticed. The list behind the beat was proven at
// most source_max_age before the issue, on the writer's clock. So the bound of a yes is the age of the oldest beat that
// has not run out, plus source_max_age. Where no fault delays a beat, that is source_max_age + max_staleness and one
// honest transit, at most 20ms; this is asked of a quarter of the schedules, which have no such fault. In the others a
// broker that delays on purpose can add the delay of the quickest beat of an epoch, but never more than rule R4 lets
// pass at a start: max_clock_skew and the error of both wall clocks. A withdrawal leaves nothing to rest on. Outside
// the bound, as in the package comment of shared/allowlist, are a sleep of less than a second and a virtual machine
// that was stopped with all its clocks, which are added; and a sleep and a step of the wall clock together, which do
// not happen here within three seconds of each other.
//
// # What is assumed
//
// Three things that the protocol does not exclude do not happen here. Where the broker can lose the highest epoch, only
// the wall clocks of the leaders keep epochs from falling, and a reader waits for the next change of leaders when one
// falls; so in schedules with such faults these clocks are right, and of a broker that split the side with the higher
// epoch wins. For the same reason two leaders on the two sides of a split do not choose the same epoch, which would be
// a fork that nobody sees before the sides are one again. And a fork, which takes the writer's key, is not taken out of
// the bucket before the writer has looked: it lasts until the next epoch.
//
// # Use
//
//	go test ./sim -run Schedules -seeds 10000    run many schedules
//	go test ./sim -run Schedules -v -seed 7      replay one, and print it
//
// Under the build tag portcullis_mutants the rules on which safety turns are made wrong one by one, and each must be
// noticed.
package sim
