package conduct

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// mark stands for texts of any length.
type mark [sha256.Size]byte

// markOf tells lists of texts apart.
func markOf(texts ...string) mark {
	var all []byte
	for _, text := range texts {
		all = append(binary.AppendUvarint(all, uint64(len(text))), text...)
	}
	return sha256.Sum256(all)
}

// subject is what an Event is about: what is told again after a while or, if it stands, only when its state is another one.
type subject struct {
	what  mark
	state mark
	// stands says that it has a state, and over that the state is that there is nothing to tell.
	stands, over bool
}

// tellings knows which Events were told, and which are on their way: of at most a number of subjects, each of a fixed size. Beyond, the one
// that was not heard of for the longest time is forgotten. It is not safe for concurrent use.
type tellings struct {
	most int
	all  map[mark]*remembered
}

// remembered is what is known of one subject.
type remembered struct {
	told, waiting     bool
	state, waitingFor mark
	// at is when it was told, and heard when it was last spoken of.
	at, heard time.Time
}

func newTellings(most int) tellings { return tellings{most: most, all: map[mark]*remembered{}} }

// news reports whether a subject is worth an Event now.
func (m *tellings) news(s subject, now time.Time) bool {
	known := m.all[s.what]
	if known == nil {
		return !s.over
	}
	known.heard = now
	switch {
	case known.waiting:
		return s.stands && known.waitingFor != s.state
	case !known.told:
		return !s.over
	case s.stands:
		return known.state != s.state
	}
	return now.Sub(known.at) >= toldFor
}

// queued notes that an Event is on its way.
func (m *tellings) queued(s subject, now time.Time) {
	known := m.all[s.what]
	if known == nil {
		m.makeRoom()
		known = &remembered{heard: now}
		m.all[s.what] = known
	}
	known.waiting, known.waitingFor = true, s.state
}

// ended notes what became of it.
func (m *tellings) ended(s subject, told bool, now time.Time) {
	known := m.all[s.what]
	if known == nil { // forgotten meanwhile
		return
	}
	if known.waitingFor == s.state {
		known.waiting = false
	}
	if told {
		known.told, known.state, known.at = true, s.state, now
	}
	if !known.waiting && (!known.told || s.over && told) {
		delete(m.all, s.what)
	}
}

// makeRoom forgets one subject when there are too many.
func (m *tellings) makeRoom() {
	if len(m.all) < m.most {
		return
	}
	var oldest mark
	var since time.Time
	for what, known := range m.all {
		if since.IsZero() || known.heard.Before(since) {
			oldest, since = what, known.heard
		}
	}
	delete(m.all, oldest)
}
