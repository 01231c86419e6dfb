package meshrpc

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"google.golang.org/grpc/resolver"
)

// maxAddresses bounds the addresses that stand in one Target.
const maxAddresses = 16

// CheckAddress reports what keeps an address from being that of a Target: host:port, or several with commas between and none of
// them twice. The error does not repeat it.
func CheckAddress(address string) error {
	all := strings.Split(address, ",")
	if len(all) > maxAddresses {
		return fmt.Errorf("the address is a list of %d, at most %d are taken", len(all), maxAddresses)
	}
	for i, one := range all {
		host, port, err := net.SplitHostPort(one)
		if err != nil || host == "" || port == "" || strings.ContainsAny(one, "/?#%@ \t\r\n") {
			return errors.New("the address is not host:port, or several of them with commas between")
		}
		if slices.Contains(all[:i], one) {
			return errors.New("the address has the same host:port twice")
		}
	}
	return nil
}

// target is what grpc is asked to connect to.
func (t Target) target(plaintext bool) string {
	return t.resolver(plaintext).Scheme() + ":///" + t.Address
}

// resolver finds the replicas. Without certificates a name is resolved and judged at every connection, by us and not by grpc.
func (t Target) resolver(plaintext bool) resolver.Builder {
	var found resolver.Builder = list{}
	switch {
	case strings.Contains(t.Address, ","):
	case plaintext:
		found = resolver.Get("passthrough")
	default:
		found = resolver.Get("dns")
	}
	if t.Sticky != nil {
		return stickyResolver{Builder: found, sticky: t.Sticky}
	}
	return found
}

// balancing is the service configuration that says which server gets a call.
func (t Target) balancing() string {
	if t.Sticky != nil {
		return `{"loadBalancingConfig":[{"pick_first":{}}]}`
	}
	return `{"loadBalancingConfig":[{"round_robin":{}}]}`
}

const listScheme = "portcullis-list"

// list resolves several addresses to themselves. A name among them is looked up at each connection, and all that it has are one server.
type list struct{}

func (list) Scheme() string { return listScheme }

// OverrideAuthority is what calls bear for a host: the first address, as a list is no host.
func (list) OverrideAuthority(target resolver.Target) string {
	first, _, _ := strings.Cut(target.Endpoint(), ",")
	return first
}

func (list) Build(target resolver.Target, to resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	var state resolver.State
	for one := range strings.SplitSeq(target.Endpoint(), ",") {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: one}}})
	}
	return fixed{}, to.UpdateState(state)
}

// fixed is a resolution that never changes.
type fixed struct{}

func (fixed) ResolveNow(resolver.ResolveNowOptions) {}

func (fixed) Close() {}
