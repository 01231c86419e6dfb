package runtime

import (
	"sync"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// ownership says which supervisor instance the runtime belongs to, on which connection, and whether
// it confirmed there. The zero ownership belongs to nobody and admits nothing.
type ownership struct {
	mu        sync.Mutex
	instance  string
	conn      uint64 // 0 for none: connections count from 1
	confirmed bool
}

// attach gives the runtime to instance on conn. What was confirmed on another connection is so no more.
func (o *ownership) attach(conn uint64, instance string) *boundary.Failure {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case conn == 0:
		return boundary.Failed(boundary.Unavailable, "attach: unknown connection")
	case !boundary.IsUUID(instance):
		return boundary.Failed(boundary.Invalid, "attach: supervisor_instance_id is not a UUID")
	case o.instance != "" && o.instance != instance:
		return boundary.Failed(boundary.Denied, "attach: another supervisor is attached")
	}
	o.instance, o.conn, o.confirmed = instance, conn, false
	return nil
}

// confirm marks the connection as confirmed and returns the instance.
func (o *ownership) confirm(conn uint64) (string, *boundary.Failure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if conn == 0 || o.conn != conn {
		return "", boundary.Failed(boundary.Denied, "confirm: no supervisor is attached on this connection")
	}
	o.confirmed = true
	return o.instance, nil
}

// admit reports whether an operation other than attach and confirm may be done on conn.
func (o *ownership) admit(conn uint64, operation string) *boundary.Failure {
	o.mu.Lock()
	defer o.mu.Unlock()
	if conn == 0 || o.conn != conn || !o.confirmed {
		return boundary.Failed(boundary.Denied, "%s: no supervisor has confirmed on this connection", operation)
	}
	return nil
}
