// Package manual holds the documents for operators to the programs, for what no single daemon's own tests can know: docs/configure.md
// has every key of every table with its default and who reads it, docs/reasons.md every reason with what to do about it, docs/sizing.md what
// the manifests ask for and allow, links lead somewhere, and every command in every document is one that a test types, or does in its own way.
//
//	go test ./test/manual            fails when a key, a reason or a bound is new, gone, another, or not explained, and when nobody types a command
//	go test ./test/manual -update    writes the tables anew; what a person has written in their last columns stays
//
// Who types what is in typed_test.go: commands of the programs here (tag portcullis_long, on the control plane), those of kubectl on a real
// node with an installed overlay in package e2e, which begins with README.md on a cluster with nothing of ours, and docs/nats.md as a whole in
// package broker.
package manual
