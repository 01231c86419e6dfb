package natsconn

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

const (
	schemePlain = "nats"
	schemeTLS   = "tls"
)

// parseServer reads one entry of urls. The problem never repeats the entry: it may hold a password.
func parseServer(raw string) (u *url.URL, problem string) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, "is not a URL: want tls://host:port or nats://host:port"
	}
	switch {
	case u.User != nil:
		return nil, "has credentials in it: remove them and use creds_file, nkey_seed_file or cert_file"
	case u.Scheme != schemePlain && u.Scheme != schemeTLS:
		return nil, "is neither tls://host:port nor nats://host:port"
	case u.Hostname() == "" || u.Opaque != "":
		return nil, "has no host: want tls://host:port or nats://host:port"
	case strings.ContainsAny(u.Hostname(), ", \t"):
		return nil, "names more than one host: give each server its own entry"
	case u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, "has more than scheme, host and port"
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, "has a port that is not from 1 to 65535"
		}
	}
	return u, ""
}

// loopback reports whether the host can only be this machine. "localhost" is trusted to be what it says.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
