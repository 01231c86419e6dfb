package allowlist

import (
	"errors"
	"fmt"
	"time"
)

// ProofKind says how the source proved its list. The zero value is no proof.
type ProofKind uint8

// The proofs of rule W4.
const (
	// ProofList: a consistent relist.
	ProofList ProofKind = iota + 1
	// ProofWatch: an event or a bookmark of a watch.
	ProofWatch
	// ProofFile: a full read of the file.
	ProofFile
)

// String is the kind as it stands in records.
func (k ProofKind) String() string {
	switch k {
	case ProofList:
		return "list"
	case ProofWatch:
		return "watch"
	case ProofFile:
		return "file"
	default:
		return "none"
	}
}

// Proof is the newest evidence that the source stands behind the list.
type Proof struct {
	Kind ProofKind
	// Age when the heartbeat was issued, in whole milliseconds; at most 10 minutes in a live heartbeat.
	Age time.Duration
}

// Heartbeat vouches for one snapshot, or withdraws it.
type Heartbeat struct {
	GatewayID string
	// Epoch, Revision and Digest name the snapshot.
	Epoch, Revision uint64
	Digest          Digest
	// Beat counts the heartbeats of the epoch, from 1.
	Beat uint64
	// Issued is the writer's monotonic time since the epoch began, in whole milliseconds.
	Issued time.Duration
	// PublishedAt is the writer's wall clock, in UTC and whole milliseconds.
	PublishedAt time.Time
	// Writer is the process, as in Snapshot.
	Writer string
	// Reason says why the list is withdrawn: one line, at most 256 bytes. A heartbeat with a Reason withdraws, one
	// without vouches.
	Reason string
	Proof  Proof
	// TTL is the life of the message in the bucket, in whole seconds up to an hour.
	TTL time.Duration
}

// Withdrawn reports that the heartbeat withdraws the list instead of vouching for it.
func (h *Heartbeat) Withdrawn() bool { return h.Reason != "" }

// check refuses what no reader would accept.
func (h *Heartbeat) check() error {
	if err := CheckGatewayID(h.GatewayID); err != nil {
		return err
	}
	if err := checkStamp(h.Epoch, h.Revision); err != nil {
		return err
	}
	if problem := tokenProblem(h.Writer, maxWriter); problem != "" {
		return fmt.Errorf("writer %s %s", quote(h.Writer), problem)
	}
	if h.Withdrawn() {
		if problem := textProblem(h.Reason, maxReason); problem != "" {
			return fmt.Errorf("reason %s %s", quote(h.Reason), problem)
		}
	}
	switch {
	case h.Digest.IsZero():
		return errors.New("no digest")
	case h.Beat < 1 || h.Beat > maxWhole:
		return fmt.Errorf("beat %d must be from 1 to %d", h.Beat, uint64(maxWhole))
	case !wholeMillis(h.Issued):
		return fmt.Errorf("issued %s is not whole milliseconds from 0 to 100 years", h.Issued)
	case !writable(h.PublishedAt):
		return fmt.Errorf("published_at %s is not in UTC and whole milliseconds from 1970 to 9999", h.PublishedAt)
	case h.Proof.Kind < ProofList || h.Proof.Kind > ProofFile:
		return errors.New("the proof has no kind")
	case !wholeMillis(h.Proof.Age):
		return fmt.Errorf("proof age %s is not whole milliseconds from 0 to 100 years", h.Proof.Age)
	case !h.Withdrawn() && h.Proof.Age > maxSourceAge:
		return fmt.Errorf("proof age %s of a live heartbeat is more than %s", h.Proof.Age, maxSourceAge)
	case h.TTL < time.Second || h.TTL > maxTTL || h.TTL%time.Second != 0:
		return fmt.Errorf("ttl %s is not whole seconds from 1s to %s", h.TTL, maxTTL)
	}
	return nil
}

func wholeMillis(d time.Duration) bool {
	return d >= 0 && d <= maxMonoMS*time.Millisecond && d%time.Millisecond == 0
}
