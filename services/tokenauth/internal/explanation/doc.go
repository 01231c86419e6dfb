// Package explanation shows a person how tokenauth decides about one bearer: every step with what it saw.
//
// Invariant: it shows what the evaluator found and judges nothing. Nothing of the credential can be in it, since the evaluator
// never has it.
//
// The caller is tokenauth's explain command.
package explanation
