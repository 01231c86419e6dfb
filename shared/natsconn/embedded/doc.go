// Package embedded is a NATS server with JetStream inside a daemon, for use on a single node.
//
// Invariants:
//
//   - One server per store: the store directory is locked before the server touches it. Two servers on one store
//     would both open it without complaint and lose each other's writes (NATS reference 3.7).
//   - What is acknowledged is on disk: every write is synced first.
//   - It listens on loopback, or elsewhere only with TLS 1.3 and client identities.
//   - The store is private: directories are made with mode 0700.
//   - A daemon whose server cannot run does not start: Claim takes the store and tries the address in the wiring.
//   - Run returns only when the server has shut down and the lock is free.
//
// It has one replica and dies with its daemon. Several nodes, or a broker that must outlive an upgrade of the daemon,
// need NATS servers of their own (NATS reference 6.1, 6.2).
//
// Caller: the wiring of the daemon that hosts the server, in the task group before the daemon's own connection, so
// that a graceful stop ends the connection first. Every daemon on the machine, the host included, connects with
// natsconn as to any other server. Only this package links the server.
package embedded
