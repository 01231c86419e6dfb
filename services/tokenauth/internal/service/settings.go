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
	// MaxConcurrentPerCaller is the same for each daemon that calls, with all its replicas. 0 to MaxConcurrent; 0 is
	// MaxConcurrent.
	MaxConcurrentPerCaller int `toml:"max_concurrent_per_caller"`
	// MaxConcurrentPerBearer is the same for each credential, so that one that repeats itself does not take the room of all: of its calls
	// only two are worked on at once, and the others wait for the second. 1 to 10000; more than MaxConcurrent bounds nothing.
	MaxConcurrentPerBearer int `toml:"max_concurrent_per_bearer"`
}

// DefaultSettings leave room for an API server that is slow and not for one that is away. A call takes 300
// to 700 KiB while it is worked on. MaxConcurrent is below the 256 streams that the mesh lets one connection have, so that calls beyond it are
// refused instead of waiting at the transport of one caller. Only lifecycle calls, so its calls may be all there are. A
// supervisor authenticates once and repeats what failed, so sixteen calls at once are several times what it needs.
func DefaultSettings() Settings {
	return Settings{
		CallTimeout:            driverconf.Duration(10 * time.Second),
		LookupTimeout:          driverconf.Duration(4 * time.Second),
		MaxConcurrent:          128,
		MaxConcurrentPerBearer: 16,
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
	if n := s.MaxConcurrentPerCaller; n < 0 || n > s.MaxConcurrent {
		report("max_concurrent_per_caller", fmt.Sprintf("is %d, must be from 0 to max_concurrent, %d", n, s.MaxConcurrent))
	}
	if n := s.MaxConcurrentPerBearer; n < 1 || n > mostCalls {
		report("max_concurrent_per_bearer", fmt.Sprintf("is %d, must be from 1 to %d", n, mostCalls))
	}
}
