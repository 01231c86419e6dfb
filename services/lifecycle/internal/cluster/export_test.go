package cluster

import "time"

// SetNow has the Cluster tell the time by another clock.
func (c *Cluster) SetNow(now func() time.Time) { c.now = now }
