package allowlist

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Section is the name of the settings table of this package: [portcullis.allowlist]. It is one table for the writer
// and the readers, because their bounds must fit together.
const Section = "allowlist"

// Settings are the bounds of the protocol. Start from DefaultSettings: the zero value has no bounds and does not
// validate.
type Settings struct {
	// HeartbeatInterval is how often the writer beats while it has proof. 100ms to 10s.
	HeartbeatInterval driverconf.Duration `toml:"heartbeat_interval"`
	// HeartbeatTTL is the life of a heartbeat in the bucket: what people see of a dead writer. Its end closes readers
	// (rule R6), so with less than MaxStaleness a broker that was away for longer than the TTL closes them when it
	// is back, before the next beat. Whole seconds, because the server counts in them (NATS reference 2.3); at least
	// two intervals, at most MaxStaleness.
	HeartbeatTTL driverconf.Duration `toml:"heartbeat_ttl"`
	// MaxStaleness is how old, counted from its issue, the newest heartbeat may be when a reader says yes. The
	// default outlives one ungraceful loss of the JetStream leader, which takes up to 9s (NATS reference 4.2). 3s to 10m, at least three
	// intervals.
	MaxStaleness driverconf.Duration `toml:"max_staleness"`
	// MaxClockSkew is how far the wall clocks of writer and reader may be apart when a reader starts, a new writer
	// takes over, or the reader's machine slept. A beat that was delayed by less than this passes there once. 1s to 5m.
	MaxClockSkew driverconf.Duration `toml:"max_clock_skew"`
	// SourceMaxAge is how old the source's proof may be when the writer vouches for the list. 1s to 10m.
	SourceMaxAge driverconf.Duration `toml:"source_max_age"`
	// FileFailureGrace is how long a file that cannot be read or parsed is waited for before the list is withdrawn.
	// The list stops being vouched for already when its last proof is older than SourceMaxAge. 1s to 1h.
	FileFailureGrace driverconf.Duration `toml:"file_failure_grace"`
	// FilePoll is how often the file is read in full, whatever notifications say. 100ms to 1m.
	FilePoll driverconf.Duration `toml:"file_poll"`
	// LabelRelist is how often the namespaces are listed in full, whatever the watch says. 500ms to 5m.
	LabelRelist driverconf.Duration `toml:"label_relist"`
	// GatherAdditions is how long after a list was stored the next one that only adds waits for others, so that a burst
	// becomes few revisions. One that comes later than that, and a removal, wait for nothing. 0 to 100ms, less than an
	// interval.
	GatherAdditions driverconf.Duration `toml:"gather_additions"`
	// StopGrace is how long a leader that stopped cleanly, and beats no more, gives a successor to take over before
	// it withdraws the list. 0 to MaxStaleness.
	StopGrace driverconf.Duration `toml:"stop_grace"`
	// RefusedNamespaces are never published, whatever the source says: names, or beginnings of names followed by *. They
	// add to kube-* and the mesh's own namespace, which the writer always refuses (rule W7).
	RefusedNamespaces []string `toml:"refused_namespaces"`
}

var _ driverconf.Section = (*Settings)(nil)

// DefaultSettings are the bounds that the protocol states, but for HeartbeatTTL: the protocol's 5s would undo what its
// MaxStaleness of 15s is for, to outlive the loss of a JetStream leader.
func DefaultSettings() Settings {
	return Settings{
		HeartbeatInterval: driverconf.Duration(time.Second),
		HeartbeatTTL:      driverconf.Duration(15 * time.Second),
		MaxStaleness:      driverconf.Duration(15 * time.Second),
		MaxClockSkew:      driverconf.Duration(30 * time.Second),
		SourceMaxAge:      driverconf.Duration(10 * time.Second),
		FileFailureGrace:  driverconf.Duration(60 * time.Second),
		FilePoll:          driverconf.Duration(2 * time.Second),
		LabelRelist:       driverconf.Duration(5 * time.Second),
		GatherAdditions:   driverconf.Duration(5 * time.Millisecond),
		StopGrace:         driverconf.Duration(5 * time.Second),
	}
}

// Revocation is the longest that a namespace can be trusted after it left the source, provided the clocks run at
// their rates and no reader has just started: see the package comment for what a start and a take-over add.
func (s *Settings) Revocation() time.Duration { return s.SourceMaxAge.Std() + s.MaxStaleness.Std() }
