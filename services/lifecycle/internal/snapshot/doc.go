// Package snapshot says what a gateway is told of a sandbox: it makes the contract's DriverSandbox of what is kept of a Sandbox object
// and of its two Pods (contract 7.14).
//
// A gateway derives the phase of a sandbox from the conditions alone (contract 2.10), and most of its phases are hard to leave: Error
// is for ever, and Stopped tells a user that nothing runs. So a condition is passed on only when it is about the present:
//
//   - Conditions of a former generation are dropped, and of each type only the first is kept.
//   - While a create or restart is under way there is Bootstrapping=True and no Suspended, and Ready is False.
//   - Suspended=True is never published of a Sandbox that is to run, nor while its workload Pod is known to be there.
//   - Ready=True needs the controller's word, the published readiness of the run, and both Pods of that run, alive and ready.
//   - Ready=False has a reason that the gateway takes for transient, unless the sandbox has come to an end that only a delete or a new
//     start leaves: see terminal in reasons.go, which has the table.
//
// Why a Pod does not come up is appended to the message of Ready: image pull, refusal, no node, unbound claim, volume, crash.
//
// Names are those of the gateway, from labels and annotations, and never those of Kubernetes objects. The status' name, instance_id,
// agent_fd and sandbox_fd are left empty: they are of fields of the Sandbox' status (sandboxName, agentPod, agentFd, sandboxFd) that no
// served version of the resource has (contract 7.14, 8.3).
//
// The package is pure: values in, values out, and the same values give the same message. Times in the fields of older gateways are
// added on the way out, by package contract.
//
// Callers: package observe, and the driver's calls for objects that were read live.
package snapshot
