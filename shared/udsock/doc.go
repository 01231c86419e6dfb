// Package udsock owns the private Unix socket between the gateway and the
// driver.
//
// Whoever can serve that socket can assert any sandbox identity (contract 2.2),
// so the package keeps one invariant: at no instant can anyone but the effective
// uid of this process be served on the socket, and the path never leads to anything
// else while the listener is open.
//
// # What Listen does, in order
//
//  1. The path is checked without touching the file system, see [CheckPath].
//  2. The parent directory is created if missing, opened, checked through the
//     open descriptor (a real directory, owned by the effective uid) and given the
//     mode 0700. From here on every step works relative to that descriptor, so a
//     directory that is swapped meanwhile changes nothing.
//  3. An exclusive flock is taken on ".<name>.lock" beside the socket. It is held
//     until Close and the kernel drops it when the process dies, so of any number
//     of starters exactly one goes on. The lock file itself stays for ever: to
//     remove it would let two starters lock two different files.
//  4. What is already at the path must be a socket that belongs to the effective
//     uid and that refuses connections. Anything else is an error and is left
//     alone: another kind of file, a foreign socket, a socket that answers, and a
//     socket of which it could not be found out. The dead one is held open, so that
//     its inode cannot be given away, compared once more and then unlinked.
//  5. The socket is made under a temporary name in the 0700 directory, with mode
//     0600 from its first instant: Linux gives a bound socket the mode that its
//     descriptor was given by fchmod before bind, so the process-wide umask,
//     which cannot be changed safely in a Go program, is not needed. When it
//     already listens it is renamed into place without replacing. A client that
//     sees the path can connect.
//
// Accept compares the peer's uid (SO_PEERCRED) with the effective one and closes
// connections of others, root included, without an answer. Close unlinks the path only if it is still this socket.
//
// # Limits
//
// Linux only; /proc must be mounted. The parent itself must not be a symlink;
// components above it may be (/var/run often is). Abstract sockets are refused:
// they have no owner and no mode. A process of the same uid is trusted: it could
// remove the socket by hand, which [Listener.Check] reports. A peer in another
// user namespace whose uid has no mapping here is shown by the kernel as the
// overflow uid (65534): do not run a daemon as that uid.
//
// Called by the lifecycle daemon for the contract's socket and by the reference
// gateway and tests, which dial it with [NewClient].
package udsock
