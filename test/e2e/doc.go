// Package e2e holds the tests that need a real node: real Pods, real projected tokens and what tokenauth
// says of them, NetworkPolicies that block, and real users who must not reach the private socket. They
// need root; `make test` runs them when it has it.
package e2e
