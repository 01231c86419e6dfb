// Package deploy renders what is installed, deploy/kustomize, as `kubectl apply -k` would, and its tests hold every overlay and every
// component in an overlay to the rules of the installation.
//
// # Invariants
//
//   - A rendering needs no flag, no plugin, no network and no file outside of the kustomization's own directories.
//   - What is rendered is in testdata/golden, whole: a change of a manifest shows as the difference of what is installed. Rewrite with
//     go test ./test/deploy -update.
//   - Each rule is also broken by a test, in one way for each thing that it looks at.
//
// The kustomizations that are rendered are the directories of deploy/kustomize/overlays and of testdata/cases; the latter put each
// component to use. Definitions of other projects' resources come from their pinned modules: see package crds below.
//
// Callers: the tests of this package, and those that install an overlay.
package deploy
