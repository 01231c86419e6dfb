package labelsource

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Keys of log lines besides those of telemetry.
const (
	keyNamespaces      = "namespaces"
	keyResourceVersion = "resource_version"
	keyPeriodSeconds   = "period_seconds"
)

// logEvery is how often one kind of failure is logged at most; the counters have them all.
const logEvery = 10 * time.Second

// journal logs what people should know of. It belongs to the goroutine of Run.
type journal struct {
	log      zerolog.Logger
	failures map[string]*rate
	// failing says that the last list failed, stretched that the period was logged.
	failing, stretched bool
}

type rate struct {
	last time.Duration
	held int
}

// failed logs a failure of what, a list or a watch, unless its kind was logged a moment ago.
func (j *journal) failed(at time.Duration, what string, f failure) {
	id := what + string(f.kind)
	r, seen := j.failures[id]
	if seen && at-r.last < logEvery {
		r.held++
		return
	}
	level := zerolog.WarnLevel
	if what == taskWatch && f.repairable() && f.kind != kindBehind {
		level = zerolog.InfoLevel // another watch mends it, and the lists go on
	}
	line := j.log.WithLevel(level).Err(f.err).Str(telemetry.KeyKind, string(f.kind))
	if seen && r.held > 0 {
		line = line.Int(telemetry.KeyCount, r.held)
	}
	line.Msg(what + " of namespaces failed")
	j.failures[id] = &rate{last: at}
}

// listed logs the first list, and the first after failures.
func (j *journal) listed(first bool, selected int, version string) {
	if first || j.failing {
		j.log.Info().Int(keyNamespaces, selected).Str(keyResourceVersion, version).Msg("the namespaces are listed")
	}
	j.failing = false
}

// period logs when lists begin or cease to be further apart than was set.
func (j *journal) period(stretched bool, period, cost time.Duration) {
	if stretched == j.stretched {
		return
	}
	j.stretched = stretched
	if !stretched {
		j.log.Info().Float64(keyPeriodSeconds, period.Seconds()).Msg("lists of namespaces are as frequent as was set again")
		return
	}
	j.log.Warn().Float64(keyPeriodSeconds, period.Seconds()).Float64(telemetry.KeyDurationMS, telemetry.DurationMS(cost)).
		Msg("lists of namespaces take so long that they are made less often; heartbeats pause when period and duration are more than source_max_age together: " +
			"raise label_relist and source_max_age, or find out what slows the API server")
}
