// Package scripted is a compute driver for tests of a gateway: a server on a real private socket that plays a small model, and
// answers single calls as a test says.
//
//	d := scripted.Start(t)
//	d.Script("CreateSandbox", scripted.Fail(codes.Unavailable, "not now"))  // the next call; after it the model again
//	d.Show(id, scripted.Ready()...)                                         // what the driver sees, and tells the watch
//
// The model keeps the contract as far as a gateway can tell: identities that change with each start, a stop that suspends, a
// delete that the watch reports, a watch that begins with everything there is. It knows no platform.
//
// Callers: tests of package gateway and driver.
package scripted
