// Package inspection turns what NATS holds of an allowlist into something to read: a table or JSON for show, a line
// for each change for watch, a judgement for verify.
//
// Invariant: nothing that came from outside reaches the output as it is. A record that does not verify is shown by its
// size and by why it does not; text of others, and of errors, has its control characters replaced, so that it can
// neither forge a line nor drive a terminal.
//
// No decision of the mesh rests on this package. A reader knows more, such as what it has seen before.
//
// Caller: nswatch's subcommands.
package inspection
