// Package reconcile decides what the Agent Sandbox controller does with one Sandbox: a pure function from what was
// observed, how old the controller is, and the time, to the actions to take and the status to write. It is contract 8.3
// and 8.4 in code.
//
// Invariants, whatever is observed:
//
//   - no Pod is created while the Sandbox is suspended, expired or being deleted, or while another Pod of it exists;
//   - nothing is deleted that is not controlled by this Sandbox's UID, and every deletion names a UID;
//   - every condition it computes carries the observed generation; a condition of an older generation can only be one
//     that the dialect or an expiry leaves behind.
//
// Its only caller is the agentsandbox package, which observes, acts and writes. An action that fails there is reported
// back in Observed.PodError or Observed.ChildError and decided upon again, so that ReconcilerError and PodStateUnknown
// come from here too.
package reconcile
