// Package manual holds the documents for operators to the programs, for what no single daemon's own tests can know: docs/configure.md
// has every key of every table with its default and who reads it, docs/runbook.md every reason with what to do about it, and every command
// in every document is one that a test types, or does in its own way.
//
//	go test ./test/manual            fails when a key or a reason is new, gone, or not explained, and when nobody types a command
//	go test ./test/manual -update    writes the tables anew; what a person has written in their last columns stays
//
// Who types what is in typed_test.go: commands of the programs here (tag portcullis_long, on the control plane), those of kubectl on a real
// node with an installed overlay in package e2e, which begins with README.md on a cluster with nothing of ours, and docs/nats.md as a whole in
// package broker.
package manual
