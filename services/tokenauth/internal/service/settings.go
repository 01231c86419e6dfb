package service

import (
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Settings are the part of [portcullis.tokenauth] that bounds the work. Start from DefaultSettings: the zero value does not
// validate.
type Settings struct {
	// CallTimeout bounds one Authenticate call, and is its deadline when the caller sets none. 100ms to 1m.
	CallTimeout driverconf.Duration `toml:"call_timeout"`
	// LookupTimeout bounds each read from the API server, with its waits for rate limits. 100ms to CallTimeout.
	LookupTimeout driverconf.Duration `toml:"lookup_timeout"`
	// MaxConcurrent is how many calls are worked on at once; those beyond are refused. 1 to 10000.
	MaxConcurrent int `toml:"max_concurrent"`
	// MaxConcurrentPerCaller is the same for each daemon that calls. 1 to MaxConcurrent.
	MaxConcurrentPerCaller int `toml:"max_concurrent_per_caller"`
}

// DefaultSettings leave room for an API server that is slow and not for one that is away. A call takes about 100 KiB while it
// is worked on.
func DefaultSettings() Settings {
	return Settings{
		CallTimeout:            driverconf.Duration(10 * time.Second),
		LookupTimeout:          driverconf.Duration(4 * time.Second),
		MaxConcurrent:          256,
		MaxConcurrentPerCaller: 128,
	}
}

// Validate reports every problem with its key.
func (s *Settings) Validate(report func(key, problem string)) {
	const least, most, mostCalls = 100 * time.Millisecond, time.Minute, 10000
	if d := s.CallTimeout.Std(); d < least || d > most {
		report("call_timeout", fmt.Sprintf("is %s, must be from %s to %s", d, least, most))
	}
	if d := s.LookupTimeout.Std(); d < least || d > s.CallTimeout.Std() {
		report("lookup_timeout", fmt.Sprintf("is %s, must be from %s to call_timeout, %s", d, least, s.CallTimeout))
	}
	if n := s.MaxConcurrent; n < 1 || n > mostCalls {
		report("max_concurrent", fmt.Sprintf("is %d, must be from 1 to %d", n, mostCalls))
	}
	if n := s.MaxConcurrentPerCaller; n < 1 || n > s.MaxConcurrent {
		report("max_concurrent_per_caller", fmt.Sprintf("is %d, must be from 1 to max_concurrent, %d", n, s.MaxConcurrent))
	}
}
