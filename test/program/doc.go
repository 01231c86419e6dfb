// Package program runs the daemons as processes inside tests: built once per test binary as they are shipped, with a
// settings file, nothing of the surroundings' environment, and killed when the test ends.
//
// A Process can be asked what it logged and whether it is ready, stopped cleanly, killed, paused and resumed: what a
// machine does to a daemon.
//
// Callers: every package of this module that tests a daemon from outside.
package program
