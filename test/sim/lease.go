package sim

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// The lease is scaled down as the other bounds are.
const (
	leaseLife     = 4 * time.Second
	leaseDeadline = 3 * time.Second
	leaseRetry    = 500 * time.Millisecond
)

// lease is the Kubernetes Lease. Nothing that is safe rests on it.
type lease struct {
	holder  *leader
	life    int
	expires time.Duration
}

// candidacy is what a process knows about its own lease.
type candidacy struct{ renewed time.Duration }

func (s *lease) heldBy(l *leader) bool { return s.holder == l && s.life == l.life }

func (s *lease) take(l *leader) {
	s.holder, s.life, s.expires = l, l.life, l.w.now+leaseLife
	l.lease.renewed = l.clock.mono
}

func (s *lease) release(l *leader) {
	if s.heldBy(l) {
		s.holder = nil
	}
}

// contend renews the lease, finds it lost, or tries to get it, again and again.
func (l *leader) contend() {
	l.after(leaseRetry, l.contend)
	s, at := &l.w.lease, l.now()
	reachable := !l.cutFromSource && (!l.w.source.broken || l.w.source.kind == allowlist.SourceFile)
	free := s.holder == nil || l.w.now >= s.expires
	switch {
	case l.writer != nil && (l.stopping || l.w.now < l.deaf):
	case l.writer != nil && s.heldBy(l) && reachable:
		s.take(l)
	case l.writer != nil && (reachable || at.Mono-l.lease.renewed > leaseDeadline):
		l.w.note("%s sees that its lease is lost", l.name)
		l.step(allowlist.LeaseLost{})
	case l.writer == nil && reachable && free:
		s.take(l)
		l.lead()
	}
}

// usurp has a candidate lead although another does, as when the Lease was deleted.
func (l *leader) usurp() {
	if l.up && l.pause == running && l.writer == nil {
		l.w.lease.take(l)
		l.lead()
	}
}
