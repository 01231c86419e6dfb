// Package commands types the commands of the documents as a reader does: as they stand there, in a shell, in their order.
//
// A fenced block of a document says by the words behind its fence what comes of it; a reader of the rendered page does not see them:
//
//	sh               must succeed
//	sh fails         each line must fail
//	sh follows       each line goes on until it is interrupted, and writes something before
//	sh node ...      the same on a real node with an installed overlay: package e2e types it
//	sh repository    must succeed in a checkout of this repository
//	sh containerd    must succeed on a node, beside bin/images: package e2e types it
//	sh node steps    one step of several there, between which the document has the reader wait, or that take something away
//	sh elsewhere     another test does what it says; package manual names that test
//
// # Invariants
//
//   - What is typed is what stands in the document, but for the replacements of the Shell: names and addresses of the place.
//   - Nothing of the surroundings' environment is there but what the Shell says.
//
// Callers: the tests of package manual and of package e2e.
package commands
