package inspection

import (
	"cmp"
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// problems is every reason for which readers refuse what the bucket holds, as far as it shows; empty when they do not.
// They are never nil, so that JSON has a list.
func problems(found *allowkv.Inspection, bounds *allowlist.Settings) []string {
	all := []string{}
	snapshot, problem := current("snapshot", found.Snapshots, "no list was ever published, or the bucket was wiped")
	if problem != "" {
		all = append(all, problem)
	}
	beat, problem := current("heartbeat", found.Heartbeats, "nobody vouches for the list: no writer runs, or it cannot prove its source")
	if problem != "" {
		all = append(all, problem)
	}
	if beat == nil {
		return all
	}
	all = append(all, beatProblems(found, beat, bounds)...)
	if snapshot != nil {
		all = append(all, pairProblems(snapshot, beat.Heartbeat)...)
	}
	return all
}

// current is the newest record of a key if it counts, else why it does not.
func current(what string, kept []allowkv.KeptRecord, absent string) (*allowkv.KeptRecord, string) {
	if len(kept) == 0 {
		return nil, fmt.Sprintf("there is no %s: %s", what, absent)
	}
	switch k := &kept[0]; {
	case k.Verified():
		return k, ""
	case k.Err != nil:
		return nil, fmt.Sprintf("the %s does not count: %s", what, clean(k.Err.Error()))
	default:
		return nil, fmt.Sprintf("there is no %s: the newest message of its key is a %s: %s", what, k.Operation, absent)
	}
}

func beatProblems(found *allowkv.Inspection, beat *allowkv.KeptRecord, bounds *allowlist.Settings) []string {
	var all []string
	if beat.Heartbeat.Withdrawn() {
		all = append(all, "the list is withdrawn: "+clean(beat.Heartbeat.Reason))
	}
	clocks := fmt.Sprintf("; the server stored it %s before", found.ServerAge(beat).Round(time.Millisecond))
	switch age := found.LocalAge(beat).Round(time.Millisecond); {
	case age >= bounds.MaxStaleness.Std():
		all = append(all, fmt.Sprintf("the heartbeat is %s old, and max_staleness is %s%s", age, bounds.MaxStaleness, clocks))
	case -age > bounds.MaxClockSkew.Std():
		all = append(all, fmt.Sprintf("the heartbeat was published %s in the future, and max_clock_skew is %s%s", -age, bounds.MaxClockSkew, clocks))
	}
	return all
}

// pairProblems compares what a heartbeat names with the list that is there.
func pairProblems(snapshot *allowkv.KeptRecord, beat *allowlist.Heartbeat) []string {
	s := snapshot.Snapshot
	switch {
	case s.Epoch != beat.Epoch || s.Revision != beat.Revision:
		return []string{fmt.Sprintf("the heartbeat vouches for revision %d of epoch %d, and the snapshot is revision %d of epoch %d", beat.Revision, beat.Epoch, s.Revision, s.Epoch)}
	case snapshot.Digest != beat.Digest:
		return []string{fmt.Sprintf("the heartbeat vouches for another list of revision %d of epoch %d than the one that is there: %s, not %s", s.Revision, s.Epoch, beat.Digest, snapshot.Digest)}
	}
	return nil
}

// unvouched reports that the newest snapshot is newer than the one which the newest heartbeat vouches for.
func unvouched(found *allowkv.Inspection) bool {
	if len(found.Snapshots) == 0 || len(found.Heartbeats) == 0 {
		return false
	}
	s, beat := found.Snapshots[0].Snapshot, found.Heartbeats[0].Heartbeat
	return s != nil && beat != nil && cmp.Or(cmp.Compare(s.Epoch, beat.Epoch), cmp.Compare(s.Revision, beat.Revision)) > 0
}
