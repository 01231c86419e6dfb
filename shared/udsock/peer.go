//go:build linux

package udsock

import (
	"fmt"
	"math"
	"net"

	"golang.org/x/sys/unix"
)

// NoUID is (uid_t)-1, which no user can have. The zero [Peer] has it, so that a
// peer nobody looked up is never taken for root.
const NoUID uint32 = math.MaxUint32

// Peer is the other end of a connection as the kernel saw it when the connection
// was made (SO_PEERCRED, unix(7)): for a server the process that called connect,
// for a client the one that called listen. The zero value is nobody.
type Peer struct {
	cred  unix.Ucred
	known bool
}

// UID is the peer's effective user id, or [NoUID] of the zero value.
func (p Peer) UID() uint32 {
	if !p.known {
		return NoUID
	}
	return p.cred.Uid
}

// GID is the peer's effective group id, or (gid_t)-1 of the zero value.
func (p Peer) GID() uint32 {
	if !p.known {
		return NoUID
	}
	return p.cred.Gid
}

// PID is the peer's process id in this process's pid namespace: 0 when it lives in
// another one, and of the zero value. For messages only: ids are reused.
func (p Peer) PID() int32 { return p.cred.Pid }

// String reads "uid 1000 pid 42".
func (p Peer) String() string {
	if !p.known {
		return "unknown peer"
	}
	return fmt.Sprintf("uid %d pid %d", p.cred.Uid, p.cred.Pid)
}

// runsAs reports that the peer is known and has this uid. Nobody runs as [NoUID].
func (p Peer) runsAs(uid uint32) bool { return p.known && uid != NoUID && p.cred.Uid == uid }

func peerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("read peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		cred, sockErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = sockErr
	}
	if err != nil {
		return Peer{}, fmt.Errorf("read peer credentials: %w", err)
	}
	return Peer{cred: *cred, known: true}, nil
}

// Conn is a connection whose peer has been checked. Only [Listener.Accept] and
// [Dial] make one.
type Conn struct {
	*net.UnixConn
	peer Peer
}

// Peer says who is at the other end.
func (c *Conn) Peer() Peer { return c.peer }
