// Package companions gives end-to-end tests the two programs that stand beside a sandbox: stand-ins for
// openshell-sandbox and openshell-supervisor, in images of our own, that use the bootstrap material of
// supervisorctl for what it is for (contract 7, 13).
//
//	images := companions.LoadImages(t, node)  // for supervisor_image, sandbox_runtime_image, template.image
//	g := gatewayside.New(authenticate)        // the gateway's end; grpc_endpoint leads to it
//	s, err := g.Await(ctx, sandboxID)         // a confirmed supervisor is connected
//	out, err := s.Run(ctx, companions.Workload("dial", "kubernetes.default.svc:443"), nil)
//
// Invariants: what the stock programs must refuse, these refuse, each with its kind: a wrong CA or name,
// a wrong bearer, claims or a Pod's uid that differ, an unknown field, a frame that is too long or does
// not fit its digest, a second supervisor, work before confirmation. They take nothing from the services'
// code, so that a fault there cannot hide itself here.
//
// Packages:
//
//	exactjson      JSON with exactly the right keys
//	bootstrap      the three files
//	bearer         the runtime's judgement of tokens
//	boundary       the protocol between the two
//	runtime        the stand-in openshell-sandbox
//	supervisor     the stand-in openshell-supervisor
//	session        the protocol between supervisor and gateway
//	gatewayside    the gateway's end of it
//	workload       the only program of the sandboxes' image
//	materialtest   bootstrap material, made without supervisorctl
//	companionstest what the tests of all these share
//
// They prove the material and the channel, not the confinement: that is the kernel's and the stock
// runtime's work. The network fence around them is the cluster's, and real.
//
// Callers: end-to-end tests.
package companions
