package inspection

import (
	"errors"
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// Report is what show prints: all that the bucket keeps of one gateway, and what it is worth.
type Report struct {
	GatewayID string `json:"gateway_id"`
	// Usable says that Problems is empty.
	Usable   bool     `json:"usable"`
	Problems []string `json:"problems"`
	// At is when the reading began, by the local clock.
	At time.Time `json:"at"`
	// Snapshot and Heartbeat are the newest records of the two keys; nil when there is none.
	Snapshot  *Record `json:"snapshot"`
	Heartbeat *Record `json:"heartbeat"`
	// Changes are the snapshots before the newest one and that one, newest first, without their namespaces.
	Changes []Record `json:"changes"`

	unvouched bool
}

// Unvouched says that nothing is wrong but that the snapshot is newer than the one that the heartbeat vouches for. So it
// is for a moment whenever a list is published, which is one write for the list and, at once after it, one to vouch for it
// (protocol W6). Readers go on with the list before in that moment, so a look that falls into it says nothing against
// the list, and whoever judges looks again.
func (r *Report) Unvouched() bool { return r.unvouched }

// Record is one record as a person sees it.
type Record struct {
	Key       string `json:"key"`
	Operation string `json:"operation"`
	// Sequence in the stream, and when it was stored, by the server's clock.
	Sequence uint64    `json:"sequence"`
	Stored   time.Time `json:"stored"`
	Size     int       `json:"size"`
	// Verified says that the record is signed and well formed; then one of List and Beat is there, else Problem says
	// why not.
	Verified bool   `json:"verified"`
	Problem  string `json:"problem,omitempty"`
	// AgeMS is the time since PublishedAt, by the clocks of the writer and of this machine; below zero when they
	// disagree. Absent in streams.
	AgeMS *int64 `json:"age_ms,omitempty"`
	List  *List  `json:"list,omitempty"`
	Beat  *Beat  `json:"beat,omitempty"`
}

// List is a verified snapshot.
type List struct {
	Epoch       uint64      `json:"epoch"`
	Revision    uint64      `json:"revision"`
	Digest      string      `json:"digest"`
	Previous    string      `json:"previous,omitempty"`
	Writer      string      `json:"writer"`
	PublishedAt time.Time   `json:"published_at"`
	Source      Source      `json:"source"`
	Count       int         `json:"count"`
	Namespaces  []Namespace `json:"namespaces,omitempty"`
	Added       []string    `json:"added,omitempty"`
	Removed     []string    `json:"removed,omitempty"`
	AddedMore   uint64      `json:"added_more,omitempty"`
	RemovedMore uint64      `json:"removed_more,omitempty"`
}

// Source is where a list came from.
type Source struct {
	Kind     string `json:"kind"`
	Selector string `json:"selector,omitempty"`
	Path     string `json:"path,omitempty"`
	Version  string `json:"version"`
}

// Namespace is one entry of a list.
type Namespace struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
}

// Beat is a verified heartbeat.
type Beat struct {
	State       string    `json:"state"`
	Reason      string    `json:"reason,omitempty"`
	Epoch       uint64    `json:"epoch"`
	Revision    uint64    `json:"revision"`
	Digest      string    `json:"digest"`
	Beat        uint64    `json:"beat"`
	Writer      string    `json:"writer"`
	PublishedAt time.Time `json:"published_at"`
	ProofKind   string    `json:"proof_kind"`
	ProofAgeMS  int64     `json:"proof_age_ms"`
	TTLMS       int64     `json:"ttl_ms"`
}

// NewReport judges found by bounds, the settings of the readers.
func NewReport(found *allowkv.Inspection, bounds *allowlist.Settings) *Report {
	r := &Report{GatewayID: clean(found.GatewayID), At: found.LocalTime.UTC(), Problems: problems(found, bounds), Changes: []Record{}}
	r.Usable = len(r.Problems) == 0
	r.unvouched = len(r.Problems) == 1 && unvouched(found)
	r.Snapshot = newest(found, found.Snapshots)
	r.Heartbeat = newest(found, found.Heartbeats)
	for i := range found.Snapshots {
		change := newRecord(&found.Snapshots[i])
		if change.List != nil {
			change.List.Namespaces = nil
		}
		r.Changes = append(r.Changes, change)
	}
	return r
}

// Err has a line for each problem; nil when there is none.
func (r *Report) Err() error {
	var all []error
	for _, p := range r.Problems {
		all = append(all, errors.New(p))
	}
	return errors.Join(all...)
}

// Summary is one line about a usable list.
func (r *Report) Summary() string {
	if !r.Usable {
		return "not usable"
	}
	l, b := r.Snapshot.List, r.Heartbeat
	return fmt.Sprintf("usable: revision %d of epoch %d, %s, vouched for %s", l.Revision, l.Epoch, plural(l.Count, "namespace"), ago(b.AgeMS))
}

func newest(found *allowkv.Inspection, kept []allowkv.KeptRecord) *Record {
	if len(kept) == 0 {
		return nil
	}
	r := newRecord(&kept[0])
	if r.Verified {
		age := found.LocalAge(&kept[0]).Milliseconds()
		r.AgeMS = &age
	}
	return &r
}

func newRecord(k *allowkv.KeptRecord) Record {
	r := Record{
		Key: clean(k.Key), Operation: k.Operation.String(), Sequence: k.Sequence, Stored: k.Stored.UTC(), Size: k.Size,
		Verified: k.Verified(), List: newList(k), Beat: newBeat(k.Heartbeat),
	}
	switch {
	case k.Err != nil:
		r.Problem = clean(k.Err.Error())
	case !r.Verified:
		r.Problem = "no value is stored: " + r.Operation
	}
	return r
}

func newList(k *allowkv.KeptRecord) *List {
	s := k.Snapshot
	if s == nil {
		return nil
	}
	l := &List{
		Epoch: s.Epoch, Revision: s.Revision, Digest: k.Digest.String(), Previous: s.Previous.String(), Writer: clean(s.Writer), PublishedAt: s.PublishedAt.UTC(),
		Source: Source{Kind: s.Source.Kind.String(), Selector: clean(s.Source.Selector), Path: clean(s.Source.Path), Version: clean(s.Source.Version)},
		Count:  s.Namespaces.Len(), Added: cleanAll(s.Changes.Added), Removed: cleanAll(s.Changes.Removed),
		AddedMore: s.Changes.AddedMore, RemovedMore: s.Changes.RemovedMore,
	}
	for e := range s.Namespaces.All() {
		l.Namespaces = append(l.Namespaces, Namespace{Name: clean(e.Name), UID: clean(e.UID)})
	}
	return l
}

func newBeat(h *allowlist.Heartbeat) *Beat {
	if h == nil {
		return nil
	}
	b := &Beat{
		State: "live", Reason: clean(h.Reason), Epoch: h.Epoch, Revision: h.Revision, Digest: h.Digest.String(), Beat: h.Beat, Writer: clean(h.Writer),
		PublishedAt: h.PublishedAt.UTC(), ProofKind: h.Proof.Kind.String(), ProofAgeMS: h.Proof.Age.Milliseconds(), TTLMS: h.TTL.Milliseconds(),
	}
	if h.Withdrawn() {
		b.State = "withdrawn"
	}
	return b
}
