// Package crd installs the Sandbox CustomResourceDefinition of group agents.x-k8s.io (contract 8.1, 8.2) and converts
// between its two versions.
//
// The definition is cluster-wide while tests isolate themselves by namespace, so it must not move under a neighbour:
// [Install] only ever creates it or widens it from [V1beta1] to [Both], is idempotent, and may run at the same time in
// any number of processes. Everything else is an error that says so. The one disturbing step, moving an old cluster to
// the new version, has a name of its own: [Upgrade]. Test packages that need [V1alpha1] and [V1beta1] at the same time
// need separate clusters.
//
// In [Both], requests for v1alpha1 are converted by a webhook that a [Converter] serves from the test process. Requests
// for v1beta1, the stored version, never need it, unless an object was stored before an upgrade. Several converters may
// run against one cluster: one is registered, and when it stops another takes over within its interval; until then
// v1alpha1 requests fail with an internal error.
//
// Invariant: after Install or Upgrade returned nil, every version of the variant answers requests.
//
// Called by the agentsandbox package's Start and by tests of version detection and upgrade.
package crd
