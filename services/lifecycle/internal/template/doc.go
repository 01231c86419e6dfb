// Package template renders the Sandbox object of a create (contract 4.3, 4.4, 7.2 steps 9 and 11, 7.5, 8.2): suspended, with the
// first record of its run, the template of the workload Pod and that of its volume claim.
//
// # Invariants
//
//   - What a caller asks for is added to what the driver sets and never replaces it: the driver's labels, annotations, variables,
//     volumes and mounts are put on top, or last.
//   - The Pod of the template is the one that supervisorctl admits (contract 7.2 step 20) and derives its companions from: names,
//     commands, mounts, identity and pull Secrets have one form.
//   - The same input makes the same object. Every setting that is used is checked by [New], every fact by the methods.
//
// # What the contract leaves open
//
//   - Both init containers carry the agent's cpu, memory and ephemeral storage: that costs a Pod nothing, since they run before it,
//     and without it no quota on limits lets the Pod pass (bug corpus L12).
//   - enableServiceLinks is false: otherwise each Service of the namespace, one for each sandbox, adds seven variables.
//   - The runtime's binary and the Pod's identity are mounted read-only everywhere but where they are written.
//   - The caller's environment stands in the container as it was given, since the workload's processes get it from there through
//     supervisorctl and not from the kubelet, which would expand $(NAME).
//
// The package is pure. Callers: the driver's create, and validate for the inventory of the Pod.
package template
