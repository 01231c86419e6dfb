// Package meshrpc is gRPC between the daemons of the mesh, over mutual TLS.
//
// The invariant: a handler runs only for a caller that has proven to be a daemon of
// the mesh and that the policy names for this very method; a client speaks only to the
// daemon it meant. Whatever is missing, unknown or ambiguous refuses; a request that is
// no message of its method is refused by its field, as the caller's fault.
//
// # Who is who
//
// A certificate names its daemon in exactly one URI, spiffe://portcullis/<daemon>, and
// chains to an authority of ca_file. Host names are not compared. A server does not
// let strangers in: without a certificate that is trusted and valid now the TLS 1.3
// handshake fails, with the cause in the server's log and metrics. A certificate that
// is trusted but does not name exactly one daemon, and a daemon that the policy does
// not name, are answered with a verdict (package verdict), whose step is "mesh." and a
// [Cause].
//
// # Certificates
//
// New fails when the files are not right. Run watches them with grpc's file provider
// and uses a changed set for new connections after it has been judged as strictly as
// at the start; an unusable set is reported and leaves the last good one in place.
// Connections end after MaxConnectionAge, so that a replaced authority goes out of
// use; with [EndlessStreams], when the caller's certificate expires; those of a client
// with [Sticky] end at the latest when the server's does. TLS sessions are never resumed.
// Give [GRPCLog] to grpclog in every main: grpc's file provider can print keys.
//
// # Plaintext
//
// With allow_plaintext_loopback, and then only, there is no TLS, and every address must
// be, at the moment it is used, a loopback address. All callers are [PlaintextCaller],
// which means any process on the machine; each method's policy must permit it by that
// name. Listing it does nothing while certificates are in use.
//
// # Use
//
//	mesh, err := meshrpc.New(cfg, meshrpc.Deps{Daemon: "tokenauth", Log: log, Registerer: registry})
//	listener, err := mesh.Listen(ctx, "0.0.0.0:8443")
//	server, err := mesh.NewServer(policy, register, daemon.ServerOptions(log, checks)...)
//	checks.AddReadiness("mesh-certificate", mesh.Ready)
//	group.Add("mesh", mesh.Run)
//	group.Add("grpc", func(ctx context.Context) error { return daemon.ServeGRPC(ctx, server, listener, drain, log) })
//
//	conn, err := mesh.NewClient(meshrpc.Target{Daemon: "tokenauth", Address: "tokenauth:8443", Idempotent: methods})
//
// Callers: the wiring of every daemon that serves or calls another. Tests of all
// modules get certificates from the package meshtest.
package meshrpc
