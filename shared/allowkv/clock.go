package allowkv

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// Clock reads a process's clocks, all at once. All parts that exchange instants, such as a Publisher and its source,
// share one.
type Clock func() allowlist.Instant

// NewClock is the machine's clocks. Its monotonic time counts from this call. Where the machine has no CLOCK_BOOTTIME,
// Boot stays zero, and every step of the wall clock forward is then taken for a sleep.
func NewClock() Clock { return clockFrom(time.Now()) }

// clockFrom is NewClock with another beginning, for answers that read since(start) themselves.
func clockFrom(start time.Time) Clock {
	return func() allowlist.Instant {
		at := since(start)
		var boot unix.Timespec
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) == nil {
			at.Boot = time.Duration(boot.Nano())
		}
		return at
	}
}

// since is an Instant without Boot, which answers do not need and which costs a second reading.
func since(start time.Time) allowlist.Instant {
	now := time.Now()
	return allowlist.Instant{Mono: now.Sub(start), Wall: now}
}
