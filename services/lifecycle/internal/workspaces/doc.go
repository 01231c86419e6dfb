// Package workspaces turns the workspace that a gateway names into a namespace that sandboxes may live in: in shared mode the
// one of the settings, in managed mode one that it makes and owns (contract 9.1, 9.2), in operator mode one that the platform
// team made and that the allowlist names at this moment.
//
// # Invariants
//
//   - Nothing is made or deleted outside of managed mode.
//   - A namespace is ours only by all of its labels: who manages it, for which gateway, and for which workspace. Two pairs of
//     gateway and workspace can have one name (contract 4.1), and then the second is refused.
//   - A namespace that is being deleted takes no new sandbox, whoever owns it; that passes by itself, and the answer says so.
//   - A delete names the uid that was seen to be ours.
//   - The SSH policy is written only where nobody else has a part in its spec (bug corpus P03): an apply is tried first, and never forced.
//   - What could not be read is not absent, and is not without annotations: the identity of a sandbox rests on them
//     (contract 9.4), so a [Place] is made of what the API server said, or not at all.
//
// # OpenShift
//
// The cluster's allocator gives a new namespace three annotations (contract 9.3). With [SCCAllocate] Ensure waits until it has.
// With [SCCCopy] it gives the new namespace the two ranges of the source namespace instead, as the published architecture has
// it; the allocator then passes the namespace over, and its Pods get no SELinux label of their own.
//
// A namespace that lacks what its sandboxes take their identity from is refused rather than mended, and they do not run as the
// default user: with [SCCAllocate] one that was made by [SCCCopy], which has ranges and never gets a label; with [SCCCopy] one that exists
// and has no ranges while the source has. One that the allocator has furnished is good for both.
//
// Callers: the driver's calls that create, start and prepare, and the two calls about workspaces.
package workspaces
