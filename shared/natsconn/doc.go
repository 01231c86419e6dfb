// Package natsconn keeps one connection to NATS for a daemon.
//
// Invariants:
//
//   - Run never returns because NATS is late, away, or refuses the credentials: it tries again for ever, with
//     backoff and jitter, and says why through Ready, the metrics and the log (bug corpus L21).
//   - What was meant for one connection never reaches another. Each connection is a new *nats.Conn; when it breaks,
//     its subscriptions and iterators end at once and publishing on it fails at once. nats.go's own reconnection,
//     which keeps subscriptions and replays a publish buffer after the fact, is not used (NATS reference 3.3).
//   - A half-open connection is noticed by pings within about PingInterval × (MaxPingsOut + 1) (NATS reference 3.1).
//   - Certificates, credentials and seeds are read anew at every connection, so a rotated file takes effect at the
//     next one. TLS is 1.3 at least; without TLS only loopback is reached unless AllowPlaintext says otherwise.
//   - The zero Session is not connected, and Ready fails until there is a connection.
//
// Consumers ask Session for the newest connection and a channel that closes when it has changed:
//
//	for ctx.Err() == nil {
//		s, changed := conn.Session()
//		if s.Connected() {
//			use(ctx, s.JetStream) // until an error or <-changed, then start afresh
//		}
//		select {
//		case <-changed:
//		case <-ctx.Done():
//		}
//	}
//
// A consumer that stops before its connection does should be given a context that ends before Run's: Run drains the
// connection when its context ends.
//
// Callers: the daemons' wiring, and allowkv through it. Sub-package embedded is the in-process server for single-node
// use, kept apart so that only the daemon that hosts it links the server; natstest, netfault and certtest are for
// tests.
package natsconn
