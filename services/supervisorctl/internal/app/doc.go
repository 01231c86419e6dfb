// Package app wires supervisorctl: its settings and, in start order, its parts.
//
// The parts are a look at the proxy's CA bundle (contract 3.1), the cluster, the conductor that works on companion sets, the
// reconcile loop in the one process that holds the Lease, the start-up probe of fences where it is asked for, and the mesh's server with
// the calls of lifecycle, which alone may make them.
//
// Beside the daemon there are two commands: "fence probe", for people, and "fence canary", which the Pods of a probe run.
//
// Caller: cmd/supervisorctl.
package app
