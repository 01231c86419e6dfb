// Package traffic makes the calls of a gateway while something happens to the driver, such as a rolling restart, and judges each
// answer by the compute driver contract.
//
//	load := traffic.Load{Driver: client, Residents: residents, Churns: churns, Pace: 50 * time.Millisecond}
//	requests := load.Run(ctx)            // until ctx ends; what is under way then is finished
//	faults := traffic.Judge(requests)    // pure
//	t.Log(traffic.Count(requests))       // refusals, by call and reason
//
// Residents are sandboxes that run all the time, so an answer about one of them can be judged alone. Churns make sandboxes, stop,
// start and delete them.
//
// # Which answers are faults
//
// At any time, whatever is restarted:
//
//   - A yes about a namespace that is not allowed: to a token exchange, a create or a start (contract 5.3, 6.1 step 8). It is the one fault
//     that nothing excuses.
//   - A no about what is there and allowed: NOT_FOUND, a list or a beginning of a watch that lacks it, a Deleted event, a refused bearer,
//     deleted = false at the first try (2.6 GetSandbox and DeleteSandbox, 2.8, 2.9). A gateway acts on each of them.
//   - Another identity than that of the run, or none (2.13).
//   - A create that was refused and left something: nobody comes back for it (2.6).
//   - A code that the contract has no meaning for in this call. UNAVAILABLE is the one that says "not now" (2.7), and to a token exchange INTERNAL, too (6.1).
//
// # Which calls must not fail
//
// The contract promises a gateway no answer: it says what becomes of a call that gets none. So what must not fail follows from who makes it
// again.
//
//   - Nobody: GetCapabilities, ValidateSandboxCreate, CreateSandbox, StartSandbox. The first is asked before each of the others (2.4), an error
//     of a create removes the row, one of a start restores it, and the user is told (2.6). Each must succeed at the first try: where a
//     replica goes away in order and another is there, a restart is no reason to refuse.
//   - The gateway, by its own rules: StopSandbox (by the reclaim, every 5 s, 2.12), DeleteSandbox and GetSandbox (recovery, 2.6), ListSandboxes
//     (the sweep, 2.9), WatchSandboxes (opened again after 2 s, 2.8). The supervisor: AuthenticateSandbox, which is refused in the course of
//     things while a create is not answered yet (2.6). Each must succeed within Patience, made again every Again.
//
// An Excuse is for a restart that has to close the gate, since what proves the list is away: closing it is the promise (5.3).
//
// A stop is not cut by its caller here, so that one that takes as long as a Pod needs is no fault.
//
// # Not judged
//
// Times, but for Patience. Order between calls on two connections: at a going over to another replica an answer may be older (package relay).
//
// Callers: the end-to-end tests of rolling restarts and upgrades.
package traffic
