// Package lifecycle runs the whole mesh against a real API server and speaks to it as a gateway does, over the private socket: the
// driver of contract 1 to 11 from outside, with the stand-in Agent Sandbox controller and stand-in Pods.
//
// Its tests are about what only the daemons together can show: that supervisorctl and tokenauth accept what lifecycle makes, that a
// create that fails leaves nothing behind, that the allowlist decides at the moment it is asked, and that the watch tells what the
// cluster does. When a site ends, no daemon may have written a piece of what was guarded: see Guard.
package lifecycle
