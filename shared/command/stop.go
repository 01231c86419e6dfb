package command

import (
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// A stop takes, one after the other, at most: calls in progress half of the grace, NATS and the export
// of traces an eighth each. What is left, a quarter, is for the checks and the admin listener, which
// need less than four seconds. A daemon that records decisions gives the last of them an eighth, and the
// calls that much less.
const (
	shares    = 8
	callShare = 4
	flushes   = 1
)

// Drain is how long calls in progress may take to finish at a stop.
func (p *Parts[S]) Drain() time.Duration {
	grace := p.Settings.Process().ShutdownGrace.Std()
	limit := grace / shares * callShare
	if _, records := recording(p.Settings); records {
		limit -= grace / shares * flushes
	}
	return limit
}

// recording are the settings of the audit trail, if the daemon has one.
func recording(own Settings) (*audit.Config, bool) {
	cfg, ok := own.Sections()[audit.Section].(*audit.Config)
	return cfg, ok
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
	if trail, ok := recording(own); ok {
		limits["portcullis."+audit.Section+".flush_timeout"] = trail.FlushTimeout
	}
	for key, limit := range limits {
		if limit.Std() > grace.Std()/shares*flushes {
			report(key, fmt.Sprintf("%s is more than an eighth of %s, %s: a stop could not end in time; shorten it, or lengthen the grace", limit, graceKey, grace), graceKey)
		}
	}
}
