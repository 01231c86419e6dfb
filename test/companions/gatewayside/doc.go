// Package gatewayside is the gateway's end of a session with the stand-in supervisor: it exchanges the
// projected token and runs commands in the sandbox.
//
//	g := gatewayside.New(authenticate) // for one, by asking the driver as the gateway does (contract 6)
//	server := grpc.NewServer(gatewayside.ServerOption()...)
//	g.Register(server)
//	s, err := g.Await(ctx, sandboxID)               // until a confirmed supervisor is connected
//	out, err := s.Run(ctx, []string{"/tool", "echo", "hi"}, nil)
//
// NewWithDesk leaves the tokens to the caller, as the reference gateway has its own.
//
// Invariants: a session opens only with a token that the Desk admits, which that of New does once for each that
// it gave, and for the same sandbox; a sandbox has one session, the newest.
//
// Callers: tests, and package gateway.
package gatewayside
