package reconcile

import (
	"errors"
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Settings are the part of the section [portcullis.supervisorctl] that is about the loop. Start from DefaultSettings: the zero value
// does not validate.
type Settings struct {
	// Workers is how many sandboxes are worked on at once. 1 to 64.
	Workers int `toml:"reconcile_workers"`
	// Resync is how often a sandbox is looked at that is on its way. 5s to 5m.
	Resync driverconf.Duration `toml:"reconcile_resync"`
	// FullLook is how often a settled sandbox is looked at when nothing reports a change. Resync to 24h.
	FullLook driverconf.Duration `toml:"reconcile_full_look"`
	// Rate bounds the looks per second that nothing calls for: full ones, and the first ones of a term at sandboxes that seem well. A
	// look is seven reads. 1 to 1000.
	Rate int `toml:"reconcile_rate"`
}

// DefaultSettings leave half of the client's 50 requests per second to calls while a new leader looks at a thousand sandboxes for the
// first time. Those that seem to need something come first and are not bound by Rate.
func DefaultSettings() Settings {
	return Settings{Workers: 8, Resync: driverconf.Duration(30 * time.Second), FullLook: driverconf.Duration(10 * time.Minute), Rate: 4}
}

// Validate reports every problem under its key. It does no I/O.
func (s *Settings) Validate(report func(key, problem string)) {
	if s.Workers < 1 || s.Workers > 64 {
		report("reconcile_workers", fmt.Sprintf("is %d, must be from 1 to 64", s.Workers))
	}
	if resync := s.Resync.Std(); resync < 5*time.Second || resync > 5*time.Minute {
		report("reconcile_resync", fmt.Sprintf("is %s, must be from 5s to 5m", resync))
	}
	if full := s.FullLook.Std(); full < s.Resync.Std() || full > 24*time.Hour {
		report("reconcile_full_look", fmt.Sprintf("is %s, must be from reconcile_resync (%s) to 24h", full, s.Resync.Std()))
	}
	if s.Rate < 1 || s.Rate > 1000 {
		report("reconcile_rate", fmt.Sprintf("is %d, must be from 1 to 1000", s.Rate))
	}
}

// check is Validate for New, whose caller should have validated before.
func (s *Settings) check() error {
	var problems []error
	s.Validate(func(key, problem string) { problems = append(problems, fmt.Errorf("reconcile: %s %s", key, problem)) })
	return errors.Join(problems...)
}
