// Package fence is the two NetworkPolicies that close a namespace around its sandboxes (contract 7.3), as values: what they
// must say, whether what stands says it, and which other policies open them again.
//
// # Invariants
//
//   - Nothing here repairs. A policy that is not as it must be is an answer for a person, and no sandbox is released behind
//     it.
//   - Only [Standing] says that a policy holds. The zero [State] says nothing, and a policy that is being deleted, or that
//     bears our name and not our labels, does not hold.
//   - An absent list and an empty one are one thing, as they are for the API server, which drops empty lists. An absent
//     object and an empty one are two: a peer without a namespace selector is this namespace, one with an empty selector is
//     all of them.
//   - [Reopened] reports too much rather than too little: a selector that cannot be read counts as one that selects.
//
// NetworkPolicies only add up. So two policies that say what they must are still no fence when a third one, by whoever,
// allows more for the same Pod: that is why Reopened exists. It sees NetworkPolicy objects alone; what a network plug-in
// adds from resources of its own, or does not enforce at all, only a probe can tell.
//
// The package is pure. Its callers are the planner and the reconcile loop of supervisorctl.
package fence
