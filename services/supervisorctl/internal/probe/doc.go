// Package probe finds out whether the fence of a namespace is enforced: policies that stand are worth nothing with a network plug-in
// that does not look at them (contract 7.3, bug corpus P09).
//
// A probe makes the two policies of the namespace as Provision would, where they are absent, and refuses where they are not what they
// must be. Then it runs two Pods behind them, a workload canary and a supervisor canary, on one node; what they do is described at
// package canary. Each leaves a report in its container's termination message, so no right beyond those on Pods is needed. From the two
// reports comes a [verdict.Decision]:
//
//   - granted: enforced. The workload canary reached no target, while the supervisor canary reached all of them before, at the same times
//     and after, and was the one that got into the workload canary, and only at the boundary port.
//   - denied: not enforced. The workload canary reached a target, or was reached at another port, after enforcement had its time to
//     set in; or the policies are not the required ones.
//   - unknown: it could not be found out, for every other reason. A target that is dead proves nothing, and neither does a canary
//     without a network.
//
// # Invariants
//
//   - The zero Decision is unknown, and so is everything that no rule of [judge] foresees. A proven no outranks any doubt, but for one:
//     whether the fence stood while the canaries ran. An answer counts only when the policies have the same uid and generation after it.
//   - The canaries are no sandbox's. They carry a boundary role, so that the policies select them, and neither a pair, which every
//     boundary Service and companion has, nor the label that OpenShell manages them, nor a sandbox id, nor an owner; and no token.
//   - They pass Pod security "restricted", and end by themselves: by their own limit, and by activeDeadlineSeconds.
//   - Whatever way a probe ends, the Pods that it made are deleted by their uids. Those of a probe that died are found by their labels and
//     deleted by the next probe of the namespace when their time is over, if they have the name of a canary and no owner.
//   - No policy is changed or deleted.
//
// # What it does not tell
//
// It is true of the node that the canaries ran on and of the time of the probe, of TCP, and of the targets that were named. Policies
// without ports, which the fence has outwards, are not enforced for one protocol alone by any plug-in that is known; but other nodes
// may have another state.
//
// Rights: get and create on networkpolicies; get, list, create and delete on pods; get on namespaces.
//
// Callers: the command "supervisorctl fence probe", and the start-up probe of the daemon ([Patrol]).
package probe
