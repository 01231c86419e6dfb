// Package mainprocess writes and reads the main process of a sandbox: the JSON that travels as the supervisor's variable
// OPENSHELL_MAIN_PROCESS_SPEC (contract 7.6) and that a Sandbox object keeps for its restarts (contract 4.4).
//
// Invariants:
//
//   - There is always a program: no command at all is a login shell on a terminal.
//   - What [Encode] makes, [Decode] takes, and it comes back the same.
//   - The command is in no error: it may hold what its caller wants kept.
//
// The package is pure. lifecycle writes the text with a create, supervisorctl reads it and writes it for the supervisor.
package mainprocess
