// Package filesource is the source of namespaces that is a file: one JSON array of names (rules W8 and W9; contract
// 5.2).
//
// Invariants:
//
//   - A list comes from one whole read of the file in which every byte was understood. Whatever else is found is a
//     failure with a cause of its own: it changes no list and proves nothing. So the publisher vouches for the list of
//     before only until its last read is older than source_max_age, and withdraws it after file_failure_grace.
//   - The file is read in full every poll period, whatever notifications say. A notification is only a reason to read
//     sooner: one that is lost, or none at all, costs one poll period.
//   - Nothing in the file system can hold the run loop: one goroutine reads, with a deadline; until it is back, the
//     source has failed, and there is never a second, in a later Run neither.
//
// # What counts as a change
//
// Every event in the directory of the file, and in each directory that holds a symbolic link on the way to it, is a
// reload: an editor's rename, a ConfigMap volume's swap of ..data, a delete, a change of permissions. Links are followed
// anew for each read.
//
// A file that is written in place can be seen half written. Most halves are no JSON array and fail. The others show in
// the file's times: a file that changed while it was read, or just before, is read again, and must then be as it was.
// Writers should write a new file and rename it over the old one.
//
// # Beyond the contract
//
// The contract has no limit on the size, checks no names, and keeps a list for ever when a reload fails. Here a file
// larger than any list that can be published is refused, and so is one with a name that is none: a typing error there
// would otherwise be found by whoever misses a namespace. Names that are namespace names and may not be published are
// left to package selection.
//
// Caller: nswatch, which gives the Source to a [allowkv.Publisher].
package filesource
