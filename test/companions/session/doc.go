// Package session is what the stand-in supervisor and the tests' gateway say to each other: a token
// exchange and one bidirectional stream, as gRPC with JSON messages.
//
// The stock gateway's own protocol is not part of the contract that this repository keeps. Only the
// shape is the stock one's: the projected ServiceAccount token is presented as a bearer to an exchange
// (contract 6.5, 6.6), what comes back authorises a stream, and the gateway works through that stream.
//
// Callers: supervisor (the client) and gatewayside (the server).
package session
