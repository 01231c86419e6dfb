// Package record is the gateway's durable store: one file, with a row per sandbox, the workspaces and the signing keys.
//
// Invariants:
//
//   - What a method reports as written is on the disk, in whole, whenever the process dies afterwards; what it reports as an
//     error was not written at all. bbolt commits by fsync, unless Options.NoSync.
//   - A row is created only when neither its id nor its workspace and name are taken (must-create), and changed or removed only
//     at the resource version that the caller has read (compare-and-set).
//   - Versions grow over the whole store and none is given twice, also not to a row that took the place of another.
//   - One process has the file open.
//
// The file holds private keys: it has mode 0600, and its directory is the caller's care.
//
// Callers: package gateway.
package record
