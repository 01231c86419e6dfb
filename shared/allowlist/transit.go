package allowlist

import "time"

// maxDrift is how fast two healthy monotonic clocks may move apart: 200 parts in a million (rule R3).
const maxDrift = 5000

// transit maps the writer's monotonic time of one epoch to the reader's by the smallest transit seen (rule R3). The
// zero transit has seen nothing.
type transit struct {
	known bool
	// least is the smallest difference of receipt and issue, which is the transit plus the distance of the clocks.
	least time.Duration
	at    time.Duration // receipt of the newest beat
	// trusted is the lowest least since the wall clocks were last compared.
	trusted time.Duration
}

// observe takes a beat and returns when it was issued on the reader's clock, never later than received, and how much
// longer than the quickest it was on its way.
func (t *transit) observe(issued, received time.Duration) (at, late time.Duration) {
	difference := received - issued
	allowed := t.least + (received-t.at)/maxDrift
	switch {
	case !t.known:
		t.known, t.least, t.trusted = true, difference, difference
	default:
		t.least = min(difference, allowed)
	}
	t.at, t.trusted = received, min(t.trusted, t.least)
	return issueInstant(issued, t.least, received), difference - t.least
}

// risen is how far the smallest transit has come up since the wall clocks were last compared. Clocks that drift
// apart do this, and so does a broker that delays every beat a little more than the last: only the wall clock can
// tell them apart.
func (t *transit) risen() time.Duration { return t.least - t.trusted }

// behind says that the local clock has stood still for d. What was learned stays true, on the clock as it is now: beats
// that were waiting for this machine to wake are as late as they are.
func (t *transit) behind(d time.Duration) { t.least, t.trusted = t.least-d, t.trusted-d }

// trust is called when the wall clocks agree.
func (t *transit) trust() { t.trusted = t.least }

// trial is the test that beats pass before they prove anything (rule R4): two of them, at least one interval apart in
// issue and in receipt, both published close to the local wall clock. The zero trial is not passed.
type trial struct {
	passed bool
	// noWall leaves the wall clock out: it is known to have stepped while beats were coming in.
	noWall           bool
	first            bool
	issued, received time.Duration // of the first beat
}

// admit takes a live beat and reports whether the trial is passed. near says that the wall clocks agree.
func (t *trial) admit(issued, received, interval time.Duration, near bool) bool {
	switch {
	case t.passed:
	case !near && !t.noWall:
		t.first = false
	case !t.first:
		t.first, t.issued, t.received = true, issued, received
	case issued-t.issued >= interval && received-t.received >= interval:
		*t = trial{passed: true}
	}
	return t.passed
}
