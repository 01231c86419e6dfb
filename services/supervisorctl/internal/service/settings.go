package service

import (
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Settings are the part of [portcullis.supervisorctl] that bounds calls. Start from DefaultSettings: the zero value does not
// validate.
type Settings struct {
	// CallTimeout bounds one call, and is its deadline when the caller sets none. 10s to 10m.
	CallTimeout driverconf.Duration `toml:"call_timeout"`
	// RequestTimeout bounds one request to the API server. 100ms to 30s.
	RequestTimeout driverconf.Duration `toml:"request_timeout"`
	// MaxConcurrent is how many calls are worked on at once. 1 to 1000.
	MaxConcurrent int `toml:"max_concurrent"`
	// MaxConcurrentPerNamespace is the same for each namespace. 1 to MaxConcurrent.
	MaxConcurrentPerNamespace int `toml:"max_concurrent_per_namespace"`
}

// DefaultSettings give a stop the time of both Pods' grace periods with their headroom, twice (contract 7.15), and a namespace a
// quarter of all calls.
func DefaultSettings() Settings {
	return Settings{
		CallTimeout:    driverconf.Duration(4 * time.Minute),
		RequestTimeout: driverconf.Duration(15 * time.Second),
		MaxConcurrent:  64, MaxConcurrentPerNamespace: 16,
	}
}

// Validate reports every problem with its key.
func (s *Settings) Validate(report func(key, problem string)) {
	for _, l := range []struct {
		key         string
		value       driverconf.Duration
		least, most time.Duration
	}{
		{"call_timeout", s.CallTimeout, 10 * time.Second, 10 * time.Minute},
		{"request_timeout", s.RequestTimeout, 100 * time.Millisecond, 30 * time.Second},
	} {
		if d := l.value.Std(); d < l.least || d > l.most {
			report(l.key, fmt.Sprintf("is %s, must be from %s to %s", d, l.least, l.most))
		}
	}
	const mostCalls = 1000
	if n := s.MaxConcurrent; n < 1 || n > mostCalls {
		report("max_concurrent", fmt.Sprintf("is %d, must be from 1 to %d", n, mostCalls))
	}
	if n := s.MaxConcurrentPerNamespace; n < 1 || n > s.MaxConcurrent {
		report("max_concurrent_per_namespace", fmt.Sprintf("is %d, must be from 1 to max_concurrent, %d", n, s.MaxConcurrent))
	}
}
