// Package gatewayside is the gateway's end of a session with the stand-in supervisor: it exchanges the
// projected token and runs commands in the sandbox.
//
//	g := gatewayside.New(authenticate) // for one, by asking the driver as the gateway does (contract 6)
//	server := grpc.NewServer(gatewayside.ServerOption()...)
//	g.Register(server)
//	s, err := g.Await(ctx, sandboxID)               // until a confirmed supervisor is connected
//	out, err := s.Run(ctx, []string{"/tool", "echo", "hi"}, nil)
//
// Invariants: a session opens only with a token that an exchange gave for the same sandbox, once each;
// a sandbox has one session, the newest.
//
// Callers: tests.
package gatewayside
