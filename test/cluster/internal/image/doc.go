// Package image packs statically linked programs into container images, without a registry or a
// container engine, and loads them into a node's containerd.
//
// Invariant: an image holds exactly the named programs and runs as a non-root user; the same
// programs give the same layers.
//
// Callers: the node of test/cluster and tests that run programs of their own in Pods.
package image
