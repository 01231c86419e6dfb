// Package apitest is an API server for tests of tokenauth: real HTTPS for the real clients, with a few objects and whatever
// faults a test wants.
//
// Invariant: without a fault it answers as a real one does, in the forms that the clients ask for, and knows one bearer, who is
// right in every respect. Each test breaks one thing.
//
// Callers: tests only. What a real API server does with real tokens is tested with one, elsewhere.
package apitest
