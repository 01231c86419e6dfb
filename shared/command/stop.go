package command

import (
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// A stop takes, one after the other, at most: calls in progress half of the grace, NATS and the export
// of traces an eighth each. What is left, a quarter, is for the checks and the admin listener, which
// need less than four seconds.
const (
	callsShare = 2
	flushShare = 8
)

// Drain is how long calls in progress may take to finish at a stop.
func (p *Parts[S]) Drain() time.Duration {
	return p.Settings.Process().ShutdownGrace.Std() / callsShare
}

// checkStop reports limits with which a requested stop could not end within its grace and so would
// be a failure.
func (d Daemon[S]) checkStop(own S, tracing telemetry.Config, report driverconf.Report) {
	grace := own.Process().ShutdownGrace
	graceKey := "portcullis." + d.Name + ".shutdown_grace"
	limits := map[string]driverconf.Duration{
		"portcullis." + telemetry.Section + ".otlp_shutdown_timeout": tracing.OTLPShutdownTimeout,
	}
	if conn, ok := own.Sections()[natsconn.Section].(*natsconn.Config); ok {
		limits["portcullis."+natsconn.Section+".drain_timeout"] = conn.DrainTimeout
	}
	for key, limit := range limits {
		if limit.Std() > grace.Std()/flushShare {
			report(key, fmt.Sprintf("%s is more than an eighth of %s, %s: a stop could not end in time; shorten it, or lengthen the grace", limit, graceKey, grace), graceKey)
		}
	}
}
