// Package admitted judges the workload Pod as the API server has really taken it, before any Secret exists for it (contract
// 7.2 step 20, 7.5). Between the template that was rendered and the Pod that stands there are admission webhooks: meshes
// that inject, policies that rewrite, and whoever can register one. So nothing about the Pod is believed.
//
// # Invariants
//
//   - Only a Pod that passes every check is admitted. The zero [Result] and the zero [Expected] admit none.
//   - The checks have a fixed order and each its own [Reason]; [Check] answers with the first that fails, [Explain] with all.
//   - A check reads what is in the Pod and what is expected, and nothing else; it never depends on another one.
//   - What is found is told in a few words of bounded length. It names objects, never a value of an environment variable.
//
// # What is added to the contract's list, and why
//
//   - No container but ours: the init containers openshell-sandbox-bootstrap and workspace-init, and agent. The contract
//     says of these what they may do, and nothing of others; but a container in the Pod shares its network, in which the
//     boundary and the resolver at 127.0.0.53 are, and may mount the volume in which the session's key is. An injected proxy
//     could not work behind the fence anyway.
//   - No volume but ours and the claims of the template. Own volumes have the source that is rendered: the state volume
//     holds the key of the session, and must be memory of this Pod. The identity volume is what the runtime believes of its
//     own uid.
//   - Own volumes are mounted where they are rendered, and nothing else is mounted over or above the roots of contract 11.4:
//     whoever mounts over /.openshell/runtime chooses what runs as the runtime.
//   - The commands are the rendered ones, without hooks and exec probes, which run beside the runtime and not under it; and
//     without restart rules of a container's own.
//   - A container's own seccomp, SELinux, AppArmor and procfs settings, which override those of the Pod. An SELinux level
//     alone is what OpenShift writes into every Pod, and is let be.
//   - No value from Secrets and ConfigMaps in environments, and no OPENSHELL_ variable that is not rendered (contract 7.5,
//     11.5); no host ports, devices and resource claims.
//   - No annotation that attaches further networks: NetworkPolicies do not hold there.
//   - Runtime class, ServiceAccount, user namespace and pull Secrets are those expected. Where no pull Secret is expected,
//     those of the ServiceAccount are there, and are let be.
//
// Other labels and annotations, node selectors, tolerations, priorities, resources, images and further scheduling gates are not
// judged: others may write them, and none of them lets the Pod out. Images neither, since many clusters write their mirrors
// into them.
//
// The package is pure. Its caller is the planner of supervisorctl.
package admitted
