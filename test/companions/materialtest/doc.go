// Package materialtest makes bootstrap material: the keys, certificates and files that supervisorctl
// puts into a sandbox's Secrets (contract 7.7, 7.8, 13.2 to 13.4).
//
// It is written against the contract and shares no code with who reads the files here or writes them
// in supervisorctl, so that the three check each other. Files are maps until they are written: a test
// breaks them in any way it likes.
//
// Callers: tests of the stand-ins.
package materialtest
