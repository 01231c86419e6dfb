// Package flight lets calls for the same thing share the work, without giving any of them an answer that is older than its
// question.
//
// # Invariants
//
//   - Work begins after every call that gets its result had come in. A call that finds work for its key under way does not
//     take that work's result, part of which may have been read before the call; it waits, with all others that come in the
//     meantime, for one more run, which begins when the first ends. So a key has one run at a time and one that waits, however
//     many calls there are, and a call takes as long as two runs at most.
//   - A call ends with its own context. A run ends early only when all calls that want its result have ended, and it knows how
//     long the last of those that wanted it when it began has; a run that nobody waits for any more does not begin.
//   - Nothing is kept: the result is gone with the last call that waited for it.
//
// The plain form, in which calls join a run that is under way, is sound only where an answer may be as old as a run takes.
// Here it may not: a Pod that was deleted before a call came in must not be found by a read that was made for an earlier one.
//
// The caller is package service.
package flight
