// Package daemons tests the four programs from outside: real processes with real settings files,
// against a real API server, a real NATS server and real certificates.
package daemons
