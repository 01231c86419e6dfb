// Package binary builds the programs that a test cluster runs from pinned Go modules, once, into a
// cache.
//
// Invariant: a path it returns names a complete binary built from exactly the module files, linker
// flags and toolchain in its key; a build that was interrupted is never visible. Two processes that
// want the same binary build it once: the second waits.
//
// Callers: the keeper of the shared cluster, tests that start a private control plane, and the
// image builder.
package binary
