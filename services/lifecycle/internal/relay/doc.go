// Package relay passes calls of the compute driver contract from the gateway's private socket to a lifecycle that runs
// elsewhere, so that lifecycle can be scaled and replaced on its own.
//
// # Invariants
//
//   - A call's bytes are never decoded. Messages, the status with its details, header and trailer metadata, the deadline and
//     a cancellation arrive as they were sent, also those of methods and fields that this release does not know.
//   - Only methods of the compute driver service are passed on, under the prefixes of package contract. Whoever can reach the
//     socket gains nothing else in the mesh.
//   - A trace goes through: with tracing, the relay's own two spans stand in the caller's trace between the gateway's and lifecycle's,
//     so that lifecycle sees a "traceparent" of that trace and of the relay's span, as W3C asks of whatever takes part. Without, it is
//     passed on like all metadata.
//   - No call is cut short. The relay sets no deadline and has no limit that lifecycle's own socket has not: answers have
//     MaxAnswerBytes, and a watch lives for as long as both ends want, since lifecycle's server for relays ends no connection under
//     one. What lifecycle's settings would end sooner there than at its socket, its "config check" refuses.
//   - Each call is sent once. A relay cannot know whether a call may be repeated, so a lost connection is the caller's to
//     judge: it gets UNAVAILABLE, and lifecycle undoes what it had begun, because its own call is cancelled.
//   - Of several replicas of lifecycle one gets all calls, for as long as it can be reached and is ready. Replicas see the cluster each
//     for itself: if calls took turns, a gateway could be told by one that a sandbox is stopped and by the next that it runs. It is the
//     connection that is asked for with meshrpc.Sticky, and lifecycle's server for relays, which gives its connections no age, that keep
//     calls and watches together.
//   - When that connection is found to be closed, or a Follower leaves it since its replica is not ready and another is, all that was
//     under way there ends with UNAVAILABLE, a watch too, which is begun anew; another replica gets what is called from then on. There
//     the view of the cluster may be behind the former one's: at a going over, and then only, an answer may be older than one before.
//   - A call holds at most one message. A slow reader slows lifecycle down, which has the rule for that.
//
// The contract has calls with one request and calls with one request and many answers, no others (contract 1.1). So a call
// needs no goroutine of its own: the request is read to its end before the call is passed on.
//
// Caller: the command "lifecycle relay", which serves the socket, holds the connection over mutual TLS, and runs the Follower.
package relay
