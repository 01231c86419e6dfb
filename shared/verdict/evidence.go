package verdict

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	verdictv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/verdict/v1"
)

// Evidence is the state of the namespace allowlist that a decision used. The zero value means that
// the list was not asked.
type Evidence struct {
	// Namespace that was looked up.
	Namespace string
	// Epoch and Revision of the list; zero when the reader holds none.
	Epoch, Revision uint64
	// Proven means that the reader has accepted a proof of the list, and that Age is its age.
	Proven bool
	// Age of the newest accepted proof, counted from its issue.
	Age time.Duration
	// EntryUID of the namespace in the list; empty when it is not listed or the source has no uids.
	EntryUID string
}

// String describes e for the log.
func (e Evidence) String() string {
	age := "unproven"
	if e.Proven {
		age = "age " + e.Age.String()
	}
	return fmt.Sprintf("namespace %q, allowlist epoch %d, revision %d, %s, uid %q",
		e.Namespace, e.Epoch, e.Revision, age, e.EntryUID)
}

// Proto returns e for the wire; nil for the zero Evidence. A negative age is sent as zero.
func (e Evidence) Proto() *verdictv1.AllowlistEvidence {
	if e == (Evidence{}) {
		return nil
	}
	p := &verdictv1.AllowlistEvidence{
		Namespace: clip(e.Namespace, maxName),
		Epoch:     e.Epoch,
		Revision:  e.Revision,
		EntryUid:  clip(e.EntryUID, maxName),
	}
	if e.Proven {
		p.Age = durationpb.New(max(e.Age, 0))
	}
	return p
}

// EvidenceFromProto reads the evidence that a peer sent; nil is the zero Evidence. An age that is no
// valid, non-negative duration counts as no proof.
func EvidenceFromProto(p *verdictv1.AllowlistEvidence) Evidence {
	e := Evidence{
		Namespace: clip(p.GetNamespace(), maxName),
		Epoch:     p.GetEpoch(),
		Revision:  p.GetRevision(),
		EntryUID:  clip(p.GetEntryUid(), maxName),
	}
	if age := p.GetAge(); age.CheckValid() == nil && age.AsDuration() >= 0 {
		e.Proven, e.Age = true, age.AsDuration()
	}
	return e
}
