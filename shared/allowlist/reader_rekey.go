package allowlist

import "fmt"

// rekey takes the keys that count from now on. What was verified under a key that is gone is no longer verified, so
// it ends as if it had never counted (rule R1); what remains verified stays. The marks stay in any case: they can only
// refuse.
func (r *Reader) rekey(keys KeySet, e *Effects) {
	r.keys = keys
	gone := func(by PublicKey) bool { return by != PublicKey{} && !keys.Has(by) }
	lost := false
	end := func(key string, by PublicKey) {
		e.find(FoundKeyGone, key, fmt.Errorf("it is signed with key %s", by.id))
		lost = true
	}
	if p := r.proof; p != nil && (gone(p.list.by) || gone(p.by)) {
		// The list and the beat that are held may be newer ones, under keys that remain.
		r.proof, lost = nil, true
	}
	if l := r.held; l != nil && gone(l.by) {
		end(r.snapshotKey, l.by)
		r.held = nil
		r.fail(r.snapshotKey, bad)
	}
	if gone(r.by) {
		end(r.heartbeatKey, r.by)
		r.beat, r.by, r.withdrawn = nil, PublicKey{}, false
		r.fail(r.heartbeatKey, bad)
	}
	if lost {
		r.trial = trial{} // its beats may have been signed with that key
	}
	// A record that was refused may count under a key that is new.
	r.resync.rekeyed = lost || r.snapshotFault == bad || r.heartbeatFault == bad
}
