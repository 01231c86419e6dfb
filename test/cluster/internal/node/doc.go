// Package node runs one real Kubernetes node: kubelet with containerd and runc, a bridge CNI network,
// kube-proxy, and kube-router's firewall, which really enforces NetworkPolicies.
//
// The node lives in a network namespace of its own, joined to the machine by a virtual cable. So its
// bridge, its packet filter rules and its routes never mix with the machine's, and removing the
// namespace removes them all, also after a crash.
//
//	machine 10.213.0.1 ───── 10.213.0.2 node ── bridge 10.244.0.1 ── Pods 10.244.0.0/24
//	control plane, tests                        Services 10.96.0.0/16
//
// Pods reach programs on the machine at HostAddress; the machine reaches Pods and Services by their
// own addresses.
//
// Invariant: Stop and Clean, also after a crash, leave no process, mount, network namespace,
// interface, route, control group or file of the node behind, but for the kubelet's empty directory for
// device plug-ins, whose place is fixed. Needs root and the Debian packages that Require names.
//
// Caller: the keeper of test/cluster.
package node
