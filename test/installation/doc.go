// Package installation sets up the allowlist part of Portcullis inside a test: keys, a bucket, a ServiceAccount with
// the rights that deploy/kustomize ships for nswatch and no others, nswatch as a process, and readers.
//
// Everything in it is real. Each installation has a gateway id, a label and a Lease of its own, so many of them share
// one API server, and one NATS server where a test does not break it.
//
// Callers: the tests of the allowlist on real parts, the replayed bug reports and the benchmark.
package installation
