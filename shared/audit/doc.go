// Package audit tells what the mesh decided: each decision becomes one line of the log and one message in the JetStream
// stream [Stream].
//
// Invariant: Trail.Record changes nothing. It has no result, waits for no network, and costs the same whether NATS is
// well, slow, away, or without the stream. What is not known to be in the stream is counted, by cause, and leaves a gap
// in the sequence of its instance, which shows in the stream itself. The log line is written by Record, before it
// returns, at whatever level the log is set to, and is there whatever becomes of the message; a log writer that blocks
// blocks it as it blocks every other line of the daemon.
//
// Nothing here can hold a token: an Event names a bearer by a Fingerprint, which only a Hasher makes, and has no room
// for free text. Of a decision's texts only its reason and its step are kept, and a text that looks like a JWT is
// withheld.
//
// # Delivery
//
// The message of an event has the event's instance and sequence as its id, so that a second copy within two minutes is
// the same message to the server. Events stay in a bounded queue for as long as the stream cannot be reached. Messages
// are stored in the order of Record, except that after a failure those that followed the failed one may precede it.
//
// # Rights
//
// A daemon publishes on its own subject (see [Subject]) and subscribes to its inbox, nothing else. [Bootstrap] belongs to
// another identity: one that may create the stream could hide that it was wiped, and one that may change it could shrink it
// until nothing is left.
//
// # Use
//
//	hasher, err := audit.NewHasher(cfg.HashKeyFile)
//	trail, err := audit.New(cfg, audit.Origin{Daemon: "tokenauth", GatewayID: id}, conn, log, registry)
//	go trail.Run(ctx) // until ctx ends, before conn does
//	trail.Record(audit.Event{Call: "authenticate", Decision: d, Token: hasher.Fingerprint(bearer)})
//
// Callers: tokenauth, which records and has the command that makes the stream, and nswatch, which makes it on the server
// that it hosts itself. The package has no policy of any daemon, so lifecycle and supervisorctl can record what they decide
// in the same stream.
package audit
