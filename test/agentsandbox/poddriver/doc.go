// Package poddriver stands in for the kubelet where no node runs: it reports, through the API server, what a kubelet
// would report about Pods, and confirms their deletion as a kubelet does. No container ever runs.
//
//	d := poddriver.Start(t, cluster.RESTConfig(), poddriver.Config{Owns: agentsandbox.Namespaces(ns)})
//	d.Override(ns, "box", poddriver.Behaviour{End: &poddriver.End{After: time.Second, ExitCode: 3}})
//
// A Pod does what its [Behaviour] says, chosen by Override, else by Config.Rule, else by the annotation
// [AnnotationBehaviour], else it becomes Ready at once and stops at once. In every case, as with a real kubelet:
//
//   - a Pod with scheduling gates is left alone (the API server reports SchedulingGated, and deletes it at once);
//   - a Pod whose non-optional Secret, ConfigMap or claim does not exist stays in ContainerCreating until it does;
//   - a deleted Pod stays until its containers have stopped, at the latest after its grace period, is then reported as
//     ended, and is removed with grace period 0 and its UID as precondition;
//   - an ended Pod never runs again.
//
// The driver registers one Node and keeps its Lease, so that the real scheduler has a place for Pods. All drivers of a
// cluster share that Node and none removes it: each drives the Pods of the namespaces it owns, whichever node they are
// on, so that a driver that ends does not disturb another. Without a scheduler, Config.Bind makes the driver bind Pods.
// It also makes a volume for each claim in its namespaces, since the scheduler waits for claims to be bound.
//
// Nobody confirms the deletion of a Pod whose driver has ended. [Start] therefore ends a driver by removing its Pods, its
// volumes and their claims; who calls New and Run has to see to that.
//
// Left out: events of the kubelet, exec, logs, port-forward, probes (readiness is what the Behaviour says), restarts
// (a crash loop is shown, not lived), init containers one after the other, and enforcement of network policies.
//
// Invariant: nothing outside the owned namespaces is changed, but for the Node, its Lease, and the volumes of claims.
package poddriver
