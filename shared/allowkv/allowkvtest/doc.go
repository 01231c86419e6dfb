// Package allowkvtest is what tests need to have a list published: a source that proves whatever it is told to hold, lists
// made of names, and keys in a file.
//
// Invariants: a [Source] never fails and never withholds a proof, so that what a test sees go wrong is the broker's doing,
// the network's or the writer's. Nothing here is random but keys.
//
// Callers: tests of shared/allowkv, of the broker and of acceptance. Production code does not import it.
package allowkvtest
