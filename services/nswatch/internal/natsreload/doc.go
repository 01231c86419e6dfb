// Package natsreload tells a NATS server when its files have changed: accounts, identities, certificates. The server does not
// look by itself.
//
// Invariants:
//
//   - Each content that was seen is told to each server process that was seen, once; also at the start, since the server may have
//     read its files before they changed last.
//   - Only a process that is a NATS server gets the signal. A number left over in the file may be another process by now, and the
//     signal ends most programs.
//   - Files that cannot be read change nothing: the server keeps what it has. What is wrong with them the server says itself, when it
//     is told, and keeps what it has too.
//
// Caller: the command nswatch nats reload, which runs beside the server in its Pod.
package natsreload
