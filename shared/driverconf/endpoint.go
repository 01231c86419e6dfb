package driverconf

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// The functions below say what is wrong with the text of an endpoint, "" when
// nothing is. No answer repeats the text: a person may have put a credential into it,
// and in text that is no URL nothing tells where.

const urlRule = "must be an http or https URL with a host, such as https://host:8080"

// strayProblem refuses the places in which credentials travel. The characters are
// looked for in the whole text, because a password may itself hold what would end
// the part before the @.
func strayProblem(text string) string {
	switch {
	case strings.Contains(text, "@"):
		return "must not carry credentials; remove what stands before the @, and the @"
	case strings.ContainsAny(text, "?#"):
		return "must not carry a query or a fragment; remove what begins with ? or #"
	default:
		return ""
	}
}

// urlProblem judges an optional http or https URL.
func urlProblem(text string) string {
	if text == "" {
		return ""
	}
	if why := strayProblem(text); why != "" {
		return why
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Port() != "" && !isPort(u.Port()):
		return urlRule
	default:
		return ""
	}
}

// grpcEndpointProblem judges an optional host:port or URL.
func grpcEndpointProblem(text string) string {
	why := urlProblem(text)
	if why != urlRule {
		return why
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || !isHost(host) || !isPort(port) {
		return "must be host:port or an http or https URL with a host, such as gateway.example:8080 or https://gateway.example:8080"
	}
	return ""
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

func isHost(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	return hostName.MatchString(text)
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}
