// Package demo shows what Portcullis does, on a real Kubernetes, and checks every word of it.
//
//	w, err := demo.Build(ctx, demo.Options{...}, timeline) // cluster, NATS, four daemons, gateway
//	defer w.Close(ctx)
//	err = demo.Play(ctx, timeline, w.Story())
//
// A story is a list of steps. A step says what it proves, does it, and tells the timeline what it saw; it fails when it did not see
// what it claims. The timeline is rendered from values alone, so that a recorded run can be rendered again.
//
// # Invariants
//
//   - No line says that something holds that was not looked at. What cannot be shown on a cluster is on the screen as not shown.
//   - All that was made carries one prefix, and goes when the demo ends, however it ends: what a demo that was killed left behind the
//     next one removes first. A namespace that the demo did not make is never touched.
//   - The definition of Sandboxes in somebody else's cluster goes only if a demo brought it, no demo is there and nobody has Sandboxes, looked at
//     twice; else it stays. Who makes his first Sandbox, by a demo's definition, in the moment between the second look and the end, loses it.
//   - The daemons run as processes, each with its own ServiceAccount's rights. The administrator's credentials prepare, look, and clean up.
//
// # Where it runs
//
// On the node cluster of package cluster Pods are real. On its control plane alone, for which nobody needs root, they are objects:
// the package poddriver reports them ready, and the demo plays their supervisor, with the token that the API server issues for the
// supervisor's Pod. On a cluster of somebody else's the images must come from a registry.
//
// # For how long
//
// The story takes a minute or two. A World that is kept for people to look into stands for as long as they want: the daemons' tokens are
// renewed in good time, and certificates are good for a year.
//
// Callers: cmd/demo; the test that runs the story on a real node.
package demo
