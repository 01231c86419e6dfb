package cluster

import "time"

// Reprobe is reprobe for tests.
const Reprobe = reprobe

// SetClock gives a Cluster another clock.
func SetClock(c *Cluster, now func() time.Time) { c.now = now }
