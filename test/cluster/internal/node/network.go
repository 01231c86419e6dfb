package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/plane"
)

// The addresses of a node's surroundings. One node runs on a machine at a time.
const (
	HostAddress = "10.213.0.1" // the machine, as Pods and the node see it
	Address     = "10.213.0.2" // the node
	APIPort     = 6443         // the API server's, as Pods see it behind its Service, if it is free
	PodCIDR     = "10.244.0.0/16"

	hostCIDR  = "10.213.0.1/30"
	nodeCIDR  = "10.213.0.2/30"
	podsRange = "10.244.0.0/24" // what this one node hands out

	netns    = "portcullis-node"
	hostLink = "pc-node0"
)

// NetNS is the path of the node's network namespace.
const NetNS = "/run/netns/" + netns

// NetworkUp makes the node's network namespace and connects it to the machine.
func NetworkUp(ctx context.Context) error {
	for _, dst := range []string{Address, "10.244.0.2", "10.96.0.1"} {
		if err := unrouted(ctx, dst); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"netns", "add", netns},
		{"link", "add", hostLink, "type", "veth", "peer", "name", "eth0", "netns", netns},
		{"addr", "add", hostCIDR, "dev", hostLink},
		{"link", "set", hostLink, "up"},
		{"-n", netns, "addr", "add", nodeCIDR, "dev", "eth0"},
		{"-n", netns, "link", "set", "lo", "up"},
		{"-n", netns, "link", "set", "eth0", "up"},
		{"-n", netns, "route", "add", "default", "via", HostAddress},
		{"route", "add", podsRange, "via", Address},
		{"route", "add", plane.ServiceCIDR, "via", Address},
	} {
		if err := ip(ctx, args...); err != nil {
			return errors.Join(err, NetworkDown(ctx))
		}
	}
	return nil
}

// NetworkDown removes what NetworkUp made. It is not an error if nothing is there.
func NetworkDown(ctx context.Context) error {
	// Deleting the link takes the routes over it along.
	var errs []error
	if _, err := os.Stat("/sys/class/net/" + hostLink); err == nil {
		errs = append(errs, ip(ctx, "link", "delete", hostLink))
	}
	if _, err := os.Stat(NetNS); err == nil {
		errs = append(errs, ip(ctx, "netns", "delete", netns))
	}
	return errors.Join(errs...)
}

// unrouted refuses to take over an address that the machine reaches by a route other than its
// default one.
func unrouted(ctx context.Context, dst string) error {
	out, err := exec.CommandContext(ctx, "ip", "-4", "route", "show", "match", dst).CombinedOutput()
	if err != nil {
		return fmt.Errorf("look at the route to %s: %w: %s", dst, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "default ") {
			return fmt.Errorf("the machine already routes %s (%s), which the test node needs for itself", dst, strings.TrimSpace(line))
		}
	}
	return nil
}

func ip(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
