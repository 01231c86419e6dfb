// Package netfault is a TCP proxy for tests that fails the way networks fail.
//
// A connection that is closed is the easy fault. The one that hurts is the half-open connection: both sockets
// stay open and no byte moves, which neither side can tell from silence (bug corpus W10, NATS reference 3.1).
// The proxy makes both on demand: Cut closes what is open, Blackhole keeps everything open and drops every byte,
// Pass lets new connections through again. A connection that has lost bytes stays dead, as in the real case where
// the path has forgotten it; only new connections work after Pass.
//
// Callers: tests of natsconn and kubeclient, and of any other package that must notice a dead peer. Production
// code must not import it.
package netfault
