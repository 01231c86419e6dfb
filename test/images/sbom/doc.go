// Package sbom writes the bill of materials of a Go program: SPDX 2.3 in JSON, made from nothing but what the program
// itself says it was linked from, so that it can neither forget a module nor name one that is not inside.
//
// Each module is a package with its version, its package URL and the sum that the go command checked it against; Go's
// standard library is one of them, by the release of the toolchain. Modules of this repository have no version of their
// own: theirs is that of the commit.
//
// Invariant: the same build information and subject give the same bytes.
//
// Caller: package images.
package sbom
