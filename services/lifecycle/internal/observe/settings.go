package observe

import (
	"errors"
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Settings are the part of the section [portcullis.lifecycle] that is about the view of the cluster. Start from DefaultSettings: the
// zero value does not validate.
type Settings struct {
	// MaxAge is how long after the cluster's last answer the view of Sandboxes and Pods counts as current. An idle watch of them hears of
	// the cluster about once a minute. 90s to 10m.
	MaxAge driverconf.Duration `toml:"watch_max_age"`
	// Queue is how many deletions and platform events may wait for one caller before its stream is reset. 64 to 65536.
	Queue int `toml:"watch_queue"`
}

// DefaultSettings bear that one answer of the cluster is missed. A caller's queue of 1024 holds at most 2 MiB.
func DefaultSettings() Settings {
	return Settings{MaxAge: driverconf.Duration(150 * time.Second), Queue: 1024}
}

// Validate reports every problem under its key. It does no I/O.
func (s *Settings) Validate(report func(key, problem string)) {
	if age := s.MaxAge.Std(); age < 90*time.Second || age > 10*time.Minute {
		report("watch_max_age", fmt.Sprintf("is %s, must be from 90s to 10m", age))
	}
	if s.Queue < 64 || s.Queue > 65536 {
		report("watch_queue", fmt.Sprintf("is %d, must be from 64 to 65536", s.Queue))
	}
}

// check is Validate for New, whose caller should have validated before.
func (s *Settings) check() error {
	var problems []error
	s.Validate(func(key, problem string) { problems = append(problems, fmt.Errorf("observe: %s %s", key, problem)) })
	return errors.Join(problems...)
}
