// Package freeport holds ports of this machine for programs that tests start, kill and start again.
//
// Invariant: a port that is held is given by chance to nobody, whether its program listens on it or not, neither as the
// port of a listener nor as the near end of a connection. A port that was only free a moment ago is: whoever dials gets
// one of the same range, and a client that dials a dead server again and again may even reach itself on it.
//
// Callers: shared/natsconn/natstest, tests that run servers as processes, and test/cluster. Production code does not
// import it.
package freeport
