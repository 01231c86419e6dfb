// Package supervisorv1 is what lifecycle asks of supervisorctl: the companion set of a sandbox. Every
// call may be repeated: the answer depends on the cluster and not on what a process remembers.
//
// Everything but this file is generated from supervisor.proto.
package supervisorv1
