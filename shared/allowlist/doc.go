// Package allowlist decides which namespaces a gateway may trust. It is the pure part of the allowlist protocol: the
// records, their signatures, the writer's and the reader's state machines, and the answer to "may this namespace be
// trusted now". There is no clock, no I/O, no logger and no goroutine in it: instants and records come in as values,
// states and things to do come out. shared/allowkv is the shell around it for NATS JetStream, nswatch the shell that
// feeds the writer.
//
// The invariant: a yes is given only on a signed list that a signed heartbeat vouches for, whose issue, not whose
// arrival, is younger than max_staleness; everything else is a no with a reason. The zero value of every state, view
// and answer is a no. No broker can turn a no into a yes: it can delay and withhold, and then readers close.
//
// # Records
//
// A bucket holds two keys for each gateway: <gateway id>.snapshot, the whole list, and <gateway id>.heartbeat. A
// record is an envelope of a payload and an ed25519 signature over the stored payload bytes, with the kind of the
// record in front (the pre-authentication encoding of DSSE), so that neither kind passes for the other. Every record
// has one form only: fields in a fixed order, no white space, names sorted and unique; anything else is refused with
// the place and the cause. A snapshot above 512 KiB is compressed with zstd, and only then; the signature is verified
// before anything is unpacked or parsed. The digest by which heartbeats name a snapshot is the SHA-256 of its plain
// payload.
//
// [SealSnapshot], [OpenSnapshot], [SealHeartbeat] and [OpenHeartbeat] are the only ways in and out. Several keys are
// active at once while keys are rotated: [KeySet].
//
// # Writer
//
// A [Writer] lives for one term of leadership. It takes what a leader-read found, what the source said, what became
// of its writes, and the time, and it plans one thing at a time. The rules, by their numbers in the protocol:
//
//   - W1: every [Write] is a compare-and-set. A conflict or a doubtful outcome is followed by a [Look]; what is found
//     is verified before anything else is written.
//   - W2: records are judged by the public keys of now (Rekeyed), so that a successor with a new key is taken for one;
//     a writer whose own key is gone ends its term. The epoch is higher than every verified one that was found, and at
//     least the wall clock in milliseconds. Look, list afresh, fencing write, and only when that is acknowledged, beats.
//     A verified record of a higher epoch ends the term, and so does one of the same epoch by another writer. What does
//     not verify is reported and overwritten.
//   - W3: a revision is a change. The same list is stored again byte for byte when the broker lost it. The number of a
//     write whose outcome was in doubt is not given to another list, because a reader may have seen it; numbers may
//     therefore be left out, and never mean two things.
//   - W4: a beat goes out every interval if the source was proven within source_max_age, and never for a revision
//     older than one already sent. What counts as proof is a consistent list, or a full read of the file. A watch
//     event or bookmark is shown in beats as the newest proof, and alone lets no beat out: a watch that was held up
//     delivers old events when it comes back, and nothing in them tells their age.
//   - W5: a list replaces the one before; an older one, by the source's own order, is refused.
//   - W6: a removal is stored at once, with a beat right behind it, and so is an addition after a pause; additions that
//     follow a list within a few milliseconds wait for others.
//   - W7: [Select] takes out what is never published.
//   - W9: a source that fails changes nothing. A file is withdrawn after its grace; until then, and for a label for
//     ever, the beats stop with the last proof. A list that is too large is withdrawn too, never cut.
//   - W10: on a clean stop the writer falls silent, gives a successor stop_grace to write, and withdraws the list
//     only if none has.
//   - W11: an empty list is a list like any other. It takes a source that said so.
//
// W8 is the file source's, in nswatch. In addition a writer looks at both keys every five intervals, and puts right
// what others did to them. A writer ends its term when no live beat was acknowledged for twice max_staleness, so that a
// leader whom nobody can use does not keep a standby from the Lease; see [Writer] for what that means for a bad file.
// And it ends its term when its machine slept, or when its wall clock went ahead, because
// the machine may have been stopped with all its other clocks: its beats would be late for ever.
//
// # Reader
//
// A [Reader] takes every message on the keys with the instant at which it came. Its [View] never changes and answers
// without locks: a shell stores the newest one atomically. The rules:
//
//   - R1: what does not verify and parse counts for nothing; as the current value of a key it makes the state Invalid
//     until that key holds a record that counts. Keys may change while the reader runs ([Rekeyed]): a new one disturbs
//     nothing, and what one that is gone has signed counts for nothing from then on.
//   - R2: epoch, revision and beat never go back; [Marks] carry that over a restart, but for the newest beats, which are
//     not worth a write to disk each second: R4 stands in for them. Two lists of one revision are a fork, which only a
//     higher epoch ends.
//   - R3: Fresh is a list, a beat with the same epoch, revision and digest, and a deadline ahead. The deadline counts
//     from the beat's issue, mapped to the reader's monotonic clock by the smallest transit of the epoch.
//   - R4: at the start, in a new epoch, and after a sleep or a stall, beats are on trial: two of them, at least one
//     interval apart in issue and in receipt, both published close to the wall clock. The wall clock is also compared
//     when the smallest transit has crept up by max_clock_skew: 200 in a million are 17 seconds in a day, and a
//     broker could use them.
//   - R5: a beat for a list that is not held ends Fresh until that list comes; if it lasts, a resynchronization is
//     asked for.
//   - R6: a delete, purge, expiry, empty value or unknown operation ends Fresh until that key is written again. An
//     expired heartbeat says Stale, the rest Withdrawn.
//   - R7: the consumer is the shell's; Effects.Resync says when to start it afresh.
//   - R8: [View.Check].
//
// Whatever ends Fresh also ends the proof: only a beat that is not on trial makes a new one. Two things do not end
// Fresh. A newer list whose beat is still to come narrows the answer at once, to what both lists hold: what it removed
// is not_listed, what it added is behind until the beat is there. And a new epoch leaves the proof of the old one its
// own deadline while the new beats are on trial, so that a change of leaders closes nothing.
//
// An answer names the epoch and revision of the newest list held. For the same epoch and revision no two readers give
// one a yes and the other a not_listed for the same name.
//
// # How old an answer can be
//
// A namespace that left the source is refused within milliseconds when all is well, and after source_max_age +
// max_staleness at worst. Two things add to the worst case, each only against a broker that delays on purpose: in an
// epoch whose every beat was late, the delay of the quickest one, which rule R4 keeps under max_clock_skew plus the
// error of the wall clocks; and the creep of the quickest beat, at most max_clock_skew again before the wall clocks
// are compared. A sleep of less than a second goes unnoticed.
//
// A virtual machine can be stopped with its monotonic and its boot clock, and no deadline then shows the time. When the
// wall clock is put right afterwards, a reader takes that step for the length of the stop: up to max_clock_skew it ages
// what is proven, and counts towards the comparison of the wall clocks; beyond, beats are on trial again. That trial
// leaves the wall clock out, because it cannot tell a stop from a clock that was set wrong, so a broker that recorded
// the beats of the stop can play them back and pass. A stop that no clock shows lasts as long longer as it took, and a
// broker can use it in the same way.
//
// # Callers
//
// shared/allowkv wraps Reader and Writer; nswatch, tokenauth, lifecycle and any gateway written in Go use those. The
// simulation drives the machines of this package themselves. Under the build tag portcullis_mutants the rules of
// pivots.go can be made wrong one by one.
package allowlist
