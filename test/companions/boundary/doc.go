// Package boundary is the protocol between the stand-in supervisor and the stand-in runtime: frames,
// envelopes, operations and the gRPC stream that carries them (contract 13.5).
//
//	gRPC stream Exchange of BoundaryChunk {data = 1}    a byte stream in each direction
//	frame         u32 length, JSON                      at most MaxFrame
//	envelope      request_id, payload_digest, request   the first frame of a stream; answered by one reply frame
//	stream frame  u8 channel, u32 length, bytes         at most MaxStream; after the reply to exec and loopback_connect
//
// Invariants: nothing is read without a limit; an envelope whose digest does not fit its request is
// refused; every refusal has one of the five kinds.
//
// The contract leaves the bodies of operations open. Theirs here are this test equipment's own, so
// the stand-ins understand each other, not the stock binaries.
//
// Callers: the stand-ins in runtime and supervisor, and tests that speak to either.
package boundary
