package driver

import (
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Settings are the part of the section [portcullis.lifecycle] that is about the calls. Start from DefaultSettings: the zero value
// does not validate.
type Settings struct {
	// CreateTimeout bounds a create or a start; the gateway sets no deadline of its own (contract 2.12). 30s to 10m, and no longer than
	// supervisorctl lets a call take: its call_timeout, and the max_call_duration of its mesh.
	CreateTimeout driverconf.Duration `toml:"create_timeout"`
	// StopTimeout bounds a stop or a delete. 30s to 10m, and no longer than supervisorctl lets a call take, as above.
	StopTimeout driverconf.Duration `toml:"stop_timeout"`
	// AbandonedAfter is the age at which a create that was never answered is taken for abandoned, and what it made is deleted
	// (contract 7.13: 5 min). At least a minute more than CreateTimeout; at most 1h.
	AbandonedAfter driverconf.Duration `toml:"abandoned_after"`
	// ReapInterval is how often abandoned creates are looked for. 1s to 10m.
	ReapInterval driverconf.Duration `toml:"reap_interval"`
}

// DefaultSettings have room for the slowest companion set that the contract knows (7.15).
func DefaultSettings() Settings {
	return Settings{
		CreateTimeout: driverconf.Duration(3 * time.Minute), StopTimeout: driverconf.Duration(4 * time.Minute),
		AbandonedAfter: driverconf.Duration(5 * time.Minute), ReapInterval: driverconf.Duration(30 * time.Second),
	}
}

// Validate reports every problem under its key. It does no I/O.
func (s *Settings) Validate(report func(key, problem string)) {
	within := func(key string, value driverconf.Duration, low, high time.Duration) {
		if value.Std() < low || value.Std() > high {
			report(key, fmt.Sprintf("is %s; must be %s to %s", value.Std(), low, high))
		}
	}
	within("create_timeout", s.CreateTimeout, 30*time.Second, 10*time.Minute)
	within("stop_timeout", s.StopTimeout, 30*time.Second, 10*time.Minute)
	within("reap_interval", s.ReapInterval, time.Second, 10*time.Minute)
	within("abandoned_after", s.AbandonedAfter, time.Minute, time.Hour)
	if s.AbandonedAfter.Std() < s.CreateTimeout.Std()+time.Minute {
		report("abandoned_after", fmt.Sprintf("is %s; a create of another replica may still be under way after create_timeout, %s: at least a minute more",
			s.AbandonedAfter.Std(), s.CreateTimeout.Std()))
	}
}
