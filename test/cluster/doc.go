// Package cluster gives tests a real Kubernetes: etcd, API server, controller manager and scheduler,
// built from pinned Go modules, in two profiles.
//
//	ControlPlane  no root needed; Pods are objects that nobody runs (package poddriver of
//	              test/agentsandbox plays the kubelet)
//	Node          root; adds a real node with containerd, real Pods and enforced NetworkPolicies
//
// Test packages share one running cluster per profile and isolate themselves by namespace:
//
//	c := cluster.Start(t, cluster.ControlPlane)
//	ns := c.Namespace(t)
//	client := c.ServiceAccountClient(t, ns, "default") // with only the rights that were granted
//
// A test that stops, freezes or breaks the API server takes one of its own from StartPrivate.
//
// The API server authorises by RBAC in both profiles. Start fails the test, never skips it, when the
// cluster cannot be had. The first start on a machine builds Kubernetes, which takes longer than a
// test may; the command `kube build PROFILE` in cmd/kube does that ahead.
package cluster
