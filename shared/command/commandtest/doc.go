// Package commandtest runs the program of a daemon inside a test, from its command line to its exit code, with no environment variables but
// those that the test gives it, and asks what it logged and what its admin listener says.
//
// Test code: whatever cannot be done fails the test. A wait ends after [Patience], which is no measure of anything.
//
// Callers: the tests of internal/app of each daemon.
package commandtest
