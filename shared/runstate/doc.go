// Package runstate reads and writes the record that a Sandbox object keeps of its run: the annotations of contract 4.4 that say
// which operation is under way, how far it has come, for which run, and which objects it made.
//
// The record is all that survives a process. Together with the live objects it decides what is left to do, so it is read
// strictly: a record that nobody of us writes is an error, and never half of a record.
//
// Invariants:
//
//   - The zero [Record] says that nothing is under way and that nothing is known of a run.
//   - What [Of] reads and [Record.Annotations] writes are the same: either side of a write can be compared with ==.
//   - [Patch] names the keys of the record and no other, so a write never takes away what somebody else keeps on the object.
//
// The package is pure. supervisorctl writes and reads the record, lifecycle writes its first form and reads it.
package runstate
