// Package control lets another process use a running gateway: Go's methods as JSON over HTTP on a private Unix socket.
//
//	GET  /v1/events        every event from now on, one JSON object per line
//	POST /v1/{operation}   a Request, answered by a Reply
//
// It is no public API: it is what a person and a script use beside `make up`. Whoever may use the socket has every right, so it
// follows the rules of contract 2.2 for the driver's (shared/udsock).
//
// Errors keep their gRPC code and message.
//
// Callers: cmd/gateway, on both ends; the demo; the tests of an installed overlay, whose gateway is in a Pod.
package control
