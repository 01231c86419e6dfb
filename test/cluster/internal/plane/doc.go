// Package plane runs a Kubernetes control plane: etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler, real programs on ports chosen at start.
//
// Invariant: the API server authorises by RBAC (and the node authoriser), so that whatever passes
// against it passes because its rights were granted. Namespace deletion, garbage collection and
// token signing are done by the real controllers.
//
// Callers: the keeper of the shared cluster, and tests that need a control plane of their own to
// stop, freeze or restart.
package plane
