// Package natsidentity makes the identities with which the parts of the mesh talk to the NATS servers of
// deploy/kustomize/base/nats, and the file by which those servers know them.
//
// An identity is an NKEY: a seed, which its holder alone has, and a public key. The server's accounts.conf says what each
// may do and names it by a variable; the file identities.conf, which [Config] renders, gives the variables their values. With
// a variable that is missing, or a value that is no key, the server does not start: nobody gets in by mistake.
//
// Invariants:
//
//   - A seed is written once, into a file of its own that others cannot read, and never printed or changed. What exists is kept,
//     so that [Directory.Fill] can be repeated.
//   - identities.conf holds nothing secret.
//
// Caller: the command nswatch nats identities.
package natsidentity
