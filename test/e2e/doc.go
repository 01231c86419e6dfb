// Package e2e holds the tests that need a real node: real Pods, real projected tokens and what tokenauth
// says of them, NetworkPolicies that block, sandboxes that really run (see package companions for what
// runs in them), set up by supervisorctl alone or by all four daemons for the reference gateway, and real
// users who must not reach the private socket. They need root; `make test` runs them when it has it.
//
// An overlay is installed as an operator installs it, with a gateway in a Pod of its own; what users see of all four daemons they must see
// there too, so both have the same type, house. On it who leads is killed, settings are wrong, every door is tried, and daemons, NATS and
// keys are replaced under load (package traffic). One test knows nothing but README.md and, after it, the other documents.
// The other overlays are installed in the same way, with sandboxes as each mode has them, and with three NATS servers of which the leading one,
// each in its turn and two at once are away.
//
// Why a Pod does not come up is made to happen there, and how soon the driver's caller is told is measured by BenchmarkCauses.
//
// Whatever must not be reachable is reached by a control at the same time, so that each of these tests can
// fail. What they wait for is the node, not the processor: they gain from a -parallel above the number of
// processors.
package e2e
