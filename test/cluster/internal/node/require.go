package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// programs are the executables that a node needs beside the built ones, with their Debian packages.
var programs = map[string]string{
	"/usr/bin/containerd":              "containerd",
	"/usr/bin/ctr":                     "containerd",
	"/usr/bin/containerd-shim-runc-v2": "containerd",
	"/usr/sbin/runc":                   "runc",
	"/usr/lib/cni/bridge":              "containernetworking-plugins",
	"/usr/lib/cni/host-local":          "containernetworking-plugins",
	"/usr/sbin/ipset":                  "ipset",
	"/usr/sbin/iptables":               "iptables",
	"/usr/sbin/nft":                    "nftables",
	"/usr/sbin/conntrack":              "conntrack",
	"/usr/sbin/ip":                     "iproute2",
	"/usr/sbin/sysctl":                 "procps",
}

// Require makes sure that the machine can run a node: it must be root's, and missing packages are
// installed with apt-get, which is announced on log. The error names what is missing otherwise.
func Require(ctx context.Context, log io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("a node runs containers and network namespaces: it needs root (the controlplane profile does not)")
	}
	missing := absent()
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("a node needs the packages %s, and there is no apt-get to install them: install what provides them", list)
	}
	fmt.Fprintf(log, "installing %s (once)\n", list)
	for _, args := range [][]string{
		{"update", "-q"},
		append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...),
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	if still := absent(); len(still) > 0 {
		return fmt.Errorf("after installing %s, these packages' programs are still missing: %s", list, strings.Join(still, " "))
	}
	return nil
}

func absent() []string {
	seen := map[string]bool{}
	var missing []string
	for path, pkg := range programs {
		if _, err := os.Stat(path); err != nil && !seen[pkg] {
			seen[pkg] = true
			missing = append(missing, pkg)
		}
	}
	return missing
}
