// Package mesh runs the whole of Portcullis against a cluster: a NATS server and the four daemons as processes, each under its own
// ServiceAccount with the rights of deploy/kustomize/base, its own certificate in the mesh and a settings file of its own.
//
// It is no test helper: nothing of package testing is in it, so that the demo runs what the tests run.
//
// # Invariants
//
//   - No daemon has another's key, token or certificate; a Standby and a Replica are one of the daemons once more. The administrator's
//     credentials serve to prepare and to clean up, and are in no daemon's settings.
//   - Every process that was started is ended by Stop, the last first; what was made in the cluster is deleted by Remove.
//   - What is not ready in time is an error with the last that the process wrote.
//
// Callers: the demo, the scenarios and the tests of lifecycle on real parts.
package mesh
