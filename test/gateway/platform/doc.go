// Package platform shows that what a cluster says about a sandbox reaches a gateway: the events of the Sandbox and of both its Pods, in
// every workspace mode, through the daemons as programs and over the private socket, with the metadata that drive the progress display
// (contract 10).
//
// The scheduler's events are its own. No kubelet runs on the control plane: its events are written in its place, as kubelets write them.
// What kubelets and controllers really say is looked at in package e2e.
package platform
