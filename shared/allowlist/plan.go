package allowlist

import "time"

// Plan is what a Step of a Writer asks of the shell.
type Plan struct {
	// Action is to be done now; nil is nothing.
	Action Action
	// Wake is the monotonic instant at which a Tick is due when nothing else comes before; zero when none is.
	Wake time.Duration
	// Findings are to be counted and logged.
	Findings []Finding
}

// Action is a Look, a Relist, a Write or an End.
type Action interface{ action() }

// Look asks for a leader-read of both keys (rule W1), never a direct get, which has no bound on its age (NATS
// reference 2.8). Its outcome comes back as Looked or LookFailed; no Look and no Write is asked for before that.
type Look struct{}

// Relist asks for the source to be listed afresh, beginning now: a consistent list, never one from a cache (rules W2,
// W5), or a full read of the file. It comes back as Listed or SourceFailed; other inputs may come before.
type Relist struct{}

// Write asks for one record to be stored. It is a compare-and-set and there is no other kind (rule W1): the server
// must be told ExpectSequence as the key's last sequence, and the name of the stream. Its outcome comes back as
// Written; no Look and no Write is asked for before that. A shell that hears nothing for some seconds says Doubtful.
type Write struct {
	Key    string
	Record []byte
	// ExpectSequence is the last sequence of Key in the stream; zero when the key has none.
	ExpectSequence uint64
	// TTL is the life of the message; zero for ever.
	TTL time.Duration
}

// End says that the term is over, and is the answer to every later Step too. A process that goes on takes part in the
// next election with a new Writer.
type End struct {
	Cause EndCause
	// Err says more; nil for Stopped.
	Err error
	// Farewell is what a clean stop left behind; zero in every other end, and in a stop before the take-over.
	Farewell Farewell
}

// Farewell is how a clean stop ended (rule W10). The zero value is no clean stop of a leader.
type Farewell uint8

// The farewells.
const (
	// FarewellSucceeded: a successor had written, and the list is its.
	FarewellSucceeded Farewell = iota + 1
	// FarewellWithdrawn: nobody had, and the withdrawal is stored.
	FarewellWithdrawn
	// FarewellUnknown: whether a successor had written could not be found out, or the withdrawal was not stored. A
	// Finding says why. Readers close by themselves unless there is a successor.
	FarewellUnknown
)

// String is the farewell for people.
func (f Farewell) String() string {
	switch f {
	case FarewellSucceeded:
		return "succeeded"
	case FarewellWithdrawn:
		return "withdrawn"
	case FarewellUnknown:
		return "unknown"
	default:
		return "none"
	}
}

func (Look) action()   {}
func (Relist) action() {}
func (Write) action()  {}
func (End) action()    {}

// EndCause is why a term is over. The zero value is no cause.
type EndCause uint8

// The causes.
const (
	// EndStopped: a clean stop, done (rule W10).
	EndStopped EndCause = iota + 1
	// EndLeaseLost: the Lease is lost (rule W1).
	EndLeaseLost
	// EndSuperseded: another writer has written under a higher epoch (rule W2).
	EndSuperseded
	// EndSplit: another writer has written under this very epoch.
	EndSplit
	// EndClock: the machine slept or was stopped, or may have been, or its monotonic clock went back. The times in later
	// beats would be wrong.
	EndClock
	// EndDefect: a record cannot be made.
	EndDefect
	// EndIdle: the term was of no use to readers for so long that another process should have its turn (see Writer).
	EndIdle
	// EndKeyGone: the signer's key is no longer among the public keys, and readers refuse what it signs.
	EndKeyGone
)

// String is the cause as a metric label.
func (c EndCause) String() string {
	switch c {
	case EndStopped:
		return "stopped"
	case EndLeaseLost:
		return "lease_lost"
	case EndSuperseded:
		return "superseded"
	case EndSplit:
		return "split"
	case EndClock:
		return "clock"
	case EndDefect:
		return "defect"
	case EndIdle:
		return "idle"
	case EndKeyGone:
		return "key_gone"
	default:
		return "none"
	}
}

// Input is something that a Writer is told: a Looked, LookFailed, Listed, Proved, SourceFailed, Written, Tick,
// Rekeyed, Released or LeaseLost.
type Input interface{ input() }

// Looked is what a leader-read found on both keys. The Writer verifies it itself.
type Looked struct{ Snapshot, Heartbeat Stored }

// Stored is the newest message on a key. The zero Stored is a key that has none.
type Stored struct {
	// Sequence of the message in the stream.
	Sequence  uint64
	Operation Operation
	Value     []byte
}

// LookFailed says that a leader-read had no outcome.
type LookFailed struct{ Err error }

// Listed is the whole list of the source, selected as rule W7 says. It replaces the one before (rule W5).
type Listed struct {
	List List
	// Version is what the source calls this state, as in Source.
	Version string
	// Order grows with the age of the source's state: the resource version as a number, or a count of reads. A list
	// of a lower Order than the last one is refused (rule W5).
	Order uint64
	// Kind is ProofList, ProofFile, or ProofWatch for the last list with a watch event applied.
	Kind ProofKind
	// ProvenAt is the monotonic instant for which the list is proven: when the request for it, or the read, began;
	// for a watch event, when it came.
	ProvenAt time.Duration
}

// Proved says that the source stands behind the last list (rule W4). A ProofWatch is shown in beats; only the other
// kinds let the writer beat.
type Proved struct {
	Kind ProofKind
	// At is as ProvenAt in Listed.
	At time.Duration
}

// SourceFailed says that the source could not be read, or that what it gave cannot be used (rule W9).
type SourceFailed struct{ Err error }

// Written is the outcome of a Write.
type Written struct {
	Result WriteResult
	// Sequence that the record got; only with WriteStored.
	Sequence uint64
	// Err says more about any other result.
	Err error
}

// Released says that the process was asked to stop and has released the Lease (rule W10).
type Released struct{}

// LeaseLost says that the Lease is lost or in doubt.
type LeaseLost struct{}

func (Looked) input()       {}
func (LookFailed) input()   {}
func (Listed) input()       {}
func (Proved) input()       {}
func (SourceFailed) input() {}
func (Written) input()      {}
func (Tick) input()         {}
func (Rekeyed) input()      {}
func (Released) input()     {}
func (LeaseLost) input()    {}

// WriteResult is the outcome of a Write. The zero value is doubt.
type WriteResult uint8

// The results.
const (
	// WriteDoubtful: nobody knows whether the record is stored, or will be.
	WriteDoubtful WriteResult = iota
	// WriteStored: the server has acknowledged it.
	WriteStored
	// WriteConflict: the key's last sequence was another, and nothing is stored.
	WriteConflict
	// WriteTooLarge: the record is larger than the server takes, and nothing is stored.
	WriteTooLarge
)
