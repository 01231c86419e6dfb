// Package manual holds the documents for operators to the programs, for what no single daemon's own tests can know: docs/configure.md
// has every key of every table with its default and who reads it, and docs/runbook.md every reason with what to do about it.
//
//	go test ./test/manual            fails when a key or a reason is new, gone, or not explained
//	go test ./test/manual -update    writes the tables anew; what a person has written in their last columns stays
package manual
