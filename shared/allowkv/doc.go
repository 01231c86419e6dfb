// Package allowkv carries the allowlist protocol over NATS JetStream KV. It is the shell around the machines of
// shared/allowlist: it owns connections, consumers, clocks, metrics and logs, and decides nothing.
//
// Invariants:
//
//   - Whatever the shell does wrong or the broker does to it makes an answer a no. Only a record that the pure reader
//     accepted extends freshness; a connection, a successful read or an idle heartbeat never does (rule R3).
//   - Every write is a compare-and-set on the key's last sequence, in a named stream, on one connection, with nothing
//     that could apply it later (rule W1). There is no other write in this package.
//   - A reader's consumer is its own, pulled, and thrown away on any doubt; it always starts again from the last
//     message of each key and never from a remembered sequence (rule R7).
//   - High-water marks are on disk before an answer uses them (rule R2).
//   - New functions start nothing; Run blocks until everything it started has ended.
//
// # Parts
//
// [Bootstrap] creates the bucket, or says how an existing one differs. It belongs to an identity that writes nothing.
//
// [Publisher] runs the writer's terms: nswatch gives it a source and says when a term begins and ends.
//
// [Reader] keeps one gateway's list and answers [Reader.Check] without a lock. tokenauth, lifecycle, and any gateway
// written in Go run one.
//
// [Inspect] reads what the bucket holds, for people; it decides nothing.
package allowkv
