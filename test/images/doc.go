// Package images builds the container images that are shipped, without a container engine and without a registry: the
// four daemons and, for tests, the NATS server that they are tested with.
//
//	made, err := images.Build(ctx, images.Options{Root: root, Into: dir, Stamp: stamp, Platforms: images.Platforms()})
//
// Each image is one OCI archive: an index with an image per platform, and beside each image its bill of materials
// (SPDX 2.3), attached by the subject field of OCI 1.1. The bills are written beside the archive as files as well.
//
// Invariants:
//
//   - An image holds one static program, an entry point that names it, a numeric user that is not root, and nothing
//     else: no shell, no certificates (every peer of a daemon is named by a certificate that the cluster issued).
//   - The same sources, stamp and Go release give the same archive, byte by byte, wherever and whenever it is built.
//   - What deploy/images/Dockerfile builds has the same user, entry point, labels and build flags; a test holds both
//     to that.
//
// Callers: the command images (`make images`), and the tests that run the shipped images on a node. The module in oras pins the program with
// which docs/images.md copies archives into a registry; package manual types it.
package images
