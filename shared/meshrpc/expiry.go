package meshrpc

import (
	"crypto/x509"
	"net"
	"time"
)

// verifiedUntil is when the last of the chains by which a certificate was trusted ends with its first certificate.
func verifiedUntil(chains [][]*x509.Certificate) (until time.Time) {
	for _, chain := range chains {
		var end time.Time
		for i, c := range chain {
			if i == 0 || c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(until) {
			until = end
		}
	}
	return until
}

// endAt closes conn at a time, by the system's clock as crypto/tls judged it, unless it is closed before.
func endAt(conn net.Conn, end time.Time) net.Conn {
	return &endingConn{Conn: conn, timer: time.AfterFunc(time.Until(end), func() { _ = conn.Close() })}
}

type endingConn struct {
	net.Conn
	timer *time.Timer
}

// Close ends the connection now.
func (c *endingConn) Close() error {
	c.timer.Stop()
	return c.Conn.Close()
}
