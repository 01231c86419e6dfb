// Package request turns what a gateway asks to be created (contract 2.5) into a value that everything behind it may believe.
//
// # Invariants
//
//   - A [Sandbox] is made by a [Reader] alone, is complete and never changes: what it hands out are copies. The zero Sandbox
//     asks for nothing, and nothing is rendered from it.
//   - All that is wrong is told at once, each with the path of its field, up to a limit. The code is that of the first problem in
//     the order of contract 7.2. Values of environments, commands and configurations are in no message, and no text of the caller's
//     is longer than a name may be.
//   - Structures are measured before they are read: depth, number of values, bytes. Quantities are read only when their text is
//     short and plain, since a number such as 1e999999999 costs what it says.
//   - Whatever is accepted can be rendered and stays below what etcd takes ([MaxBytes]).
//
// # What is refused beyond contract 11.4
//
//   - Labels and annotations below openshell.ai, openshell.io and agents.x-k8s.io, and those that give a Pod other networks, devices
//     or profiles than its spec says (contract 4.3 "[O]").
//   - Variables OPENSHELL_ in whatever case, which the stock driver drops silently (contract 7.5). OPENSHELL_LOG_LEVEL stays, and
//     yields to the field log_level.
//   - Names that compose into those of companions: a workload Pod called os-supervisor-... would take another sandbox's place.
//   - Priority classes of the system, mounts over /proc, /sys and /dev, limits of zero, which mean none.
//   - Extended resources beyond the settings' list; the inventory would refuse them later (contract 11.5).
//
// Fields that this driver does not use (namespace, status, policy, sandbox_token, workload_identity, agent_socket_path) are only
// measured. A namespace, where one is said, must be the one that the workspace leads to.
//
// The package is pure. Callers: the driver's ValidateSandboxCreate and CreateSandbox; package template renders the result.
package request
