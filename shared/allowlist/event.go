package allowlist

// Event is something that a reader is told: a Record, a Tick, a Rebuilt, a Suspended or a Rekeyed.
type Event interface{ event() }

// Record is a message on a key of the bucket, as the consumer delivers it.
type Record struct {
	// Key is the whole key, such as SnapshotKey gives.
	Key       string
	Operation Operation
	Value     []byte // not kept, not changed
}

// Tick is the passing of time. A shell ticks several times per heartbeat interval, so that states are reported and
// resynchronization is asked for in time; answers do not depend on it.
type Tick struct{}

// Rebuilt says that the consumer was thrown away and started afresh. It changes no state (rule R3: connections prove
// nothing); it restarts the wait before a resynchronization is asked for.
type Rebuilt struct{}

// Suspended says that the process or the machine did not run for a while. A shell that gives whole Instants need not
// send it: the reader sees it in the clocks.
type Suspended struct{}

// Rekeyed says that records may be signed with Keys from now on, and with no other key. A key that is new changes
// nothing that is held. When a key is gone, all that it signed ends at once: the list, the newest beat and the proof
// that rest on it, and the trial. The state is then Invalid until the records count again (rule R1). The Marks stay:
// what was refused for them remains refused. A stolen key may have moved them beyond any epoch that the writer will
// reach; then the stored Marks must be removed and the reader started again. Keys without a key deny everything.
//
// A Writer is told so too. It judges what it finds from then on by Keys; without its own key among them the term is
// over (EndKeyGone).
type Rekeyed struct{ Keys KeySet }

func (Record) event()    {}
func (Tick) event()      {}
func (Rebuilt) event()   {}
func (Suspended) event() {}
func (Rekeyed) event()   {}

// Operation is what a message does to its key. The zero value is an unknown operation, which ends Fresh (rule R6).
type Operation uint8

// The operations.
const (
	// OperationUnknown is anything that is none of the others.
	OperationUnknown Operation = iota
	// OperationPut stores a value.
	OperationPut
	// OperationDelete and OperationPurge are markers that someone wrote.
	OperationDelete
	OperationPurge
	// OperationExpire is the marker that the server writes when a message's time is up.
	OperationExpire
)

// String is the operation as a metric label.
func (o Operation) String() string {
	switch o {
	case OperationPut:
		return "put"
	case OperationDelete:
		return "delete"
	case OperationPurge:
		return "purge"
	case OperationExpire:
		return "expire"
	default:
		return "unknown"
	}
}

// FindingKind is what a Finding is about; a shell counts each. The zero value is none.
type FindingKind uint8

// What readers and writers find. Those marked with (alarm) do not happen in a healthy installation.
const (
	// FoundRejected (alarm): a record that does not count (rule R1); the Finding has the Cause.
	FoundRejected FindingKind = iota + 1
	// FoundRollback: a verified record that is older than one accepted before (rule R2).
	FoundRollback
	// FoundFork (alarm): a verified record that contradicts another of the same revision (rule R2).
	FoundFork
	// FoundDuplicate: a beat that was accepted before; a rebuilt consumer delivers one.
	FoundDuplicate
	// FoundLate: a beat that was on its way longer than a third of max_staleness.
	FoundLate
	// FoundBehind: a beat that names a revision that is not held (rule R5).
	FoundBehind
	// FoundSkew (alarm): a beat that had to be near the local wall clock and is not (rule R4).
	FoundSkew
	// FoundGone: a delete, purge, expiry, empty value or unknown operation on a key (rule R6).
	FoundGone
	// FoundStray: a message on a key that is neither of the two.
	FoundStray
	// FoundWithdrawn: a beat that withdraws the list.
	FoundWithdrawn
	// FoundStall: the process was not running for longer than max_staleness.
	FoundStall
	// FoundSleep: the machine slept, or its clocks look like it.
	FoundSleep
	// FoundClockStep: the wall clock stepped.
	FoundClockStep
	// FoundClockBack (alarm): the monotonic clock went back.
	FoundClockBack
	// FoundDrift: the smallest transit has risen so far that the wall clocks must be compared again.
	FoundDrift
	// FoundForeign: a verified record of another writer on a key of this one.
	FoundForeign
	// FoundOldList (alarm): a source list that is older than the last one used (rule W5).
	FoundOldList
	// FoundTooLarge (alarm): a list that fits into no record, or that the server does not take.
	FoundTooLarge
	// FoundUnproven: a beat was due and the source is not proven (rule W4).
	FoundUnproven
	// FoundDoubt: a write, or a leader-read, that nobody knows the outcome of (rule W1).
	FoundDoubt
	// FoundKeyGone: what is held of a key of the bucket was signed with a key that is no longer configured. In a writer
	// (alarm), whose Finding has no Key: its own signing key is no longer configured.
	FoundKeyGone
)

var findingNames = [...]string{
	"none", "rejected", "rollback", "fork", "duplicate", "late", "behind", "clock_skew", "gone", "stray", "withdrawn",
	"stall", "sleep", "clock_step", "clock_back", "drift", "foreign", "old_list", "too_large", "unproven", "doubt",
	"key_gone",
}

// String is the kind as a metric label.
func (k FindingKind) String() string {
	if int(k) >= len(findingNames) {
		return findingNames[0]
	}
	return findingNames[k]
}

// Finding is one thing to count, and to log.
type Finding struct {
	Kind FindingKind
	// Key of the bucket that it is about; empty when it is about none.
	Key string
	// Cause of FoundRejected; zero otherwise.
	Cause Cause
	// Err says more; nil when there is no more to say.
	Err error
}
