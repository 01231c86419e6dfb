package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// version is the source at one time.
type version struct {
	order uint64
	list  allowlist.List
}

// span is a time in which a name, with one uid, was in the source; to is zero while it is.
type span struct {
	uid      string
	from, to time.Duration
}

// source is the cluster's namespaces, or the file. It is the truth.
type source struct {
	w        *World
	kind     allowlist.SourceKind
	names    []string // all that are ever in it
	uids     map[string]string
	versions []version
	spans    map[string][]span
	born     int

	// broken: the API server does not answer, or the file cannot be used. refusing: it answers, but neither list nor
	// watch, as when the right to them was lost. slow holds up what it answers.
	broken, refusing bool
	slow             time.Duration
	// stale is the chance that a list is older than one that the same process has used.
	stale float64
}

var (
	errNoAnswer = errors.New("the API server does not answer")
	errFile     = errors.New("the file is not a JSON array of names")
)

func newSource(w *World) *source {
	s := &source{w: w, kind: allowlist.SourceLabel, uids: map[string]string{}, spans: map[string][]span{}}
	if w.chance(0.3) {
		s.kind = allowlist.SourceFile
	}
	for i := range 5 {
		s.names = append(s.names, fmt.Sprintf("team-%d", i))
	}
	for _, name := range s.names[:3] {
		s.put(name)
	}
	s.versions = []version{s.make(1)}
	return s
}

// describe is what the writers say about it.
func (s *source) describe() allowlist.Source {
	if s.kind == allowlist.SourceFile {
		return allowlist.Source{Kind: s.kind, Path: "/etc/portcullis/namespaces.json"}
	}
	return allowlist.Source{Kind: s.kind, Selector: "portcullis=trusted"}
}

// start changes the source from time to time, and twice after the last fault, so that the end shows whether changes
// still come through.
func (s *source) start() {
	w := s.w
	for at := w.between(0, 3*time.Second); at < w.weather.calm; at += w.between(500*time.Millisecond, 7*time.Second) {
		w.after(at, s.change)
	}
	for range 2 {
		w.after(w.weather.calm+w.between(0, time.Second), s.change)
	}
}

// change adds, removes or recreates a namespace.
func (s *source) change() {
	name := pick(s.w, s.names)
	_, held := s.uids[name]
	if held {
		s.drop(name)
	}
	if !held || s.kind == allowlist.SourceLabel && s.w.chance(0.25) {
		s.put(name)
	}
	s.versions = append(s.versions, s.make(s.newest().order+1))
	s.w.note("source: version %d holds %s", s.newest().order, s.show())
	for _, l := range s.w.leaders {
		l.sourceChanged(s.newest())
	}
}

func (s *source) put(name string) {
	uid := ""
	if s.kind == allowlist.SourceLabel {
		s.born++
		uid = "uid-" + strconv.Itoa(s.born)
	}
	s.uids[name] = uid
	s.spans[name] = append(s.spans[name], span{uid: uid, from: s.w.now})
}

func (s *source) drop(name string) {
	delete(s.uids, name)
	s.spans[name][len(s.spans[name])-1].to = s.w.now
}

func (s *source) make(order uint64) version {
	entries := make([]allowlist.Entry, 0, len(s.uids))
	for _, name := range s.names {
		if uid, held := s.uids[name]; held {
			entries = append(entries, allowlist.Entry{Name: name, UID: uid})
		}
	}
	return version{order: order, list: must(allowlist.NewList(entries))}
}

func (s *source) newest() version { return s.versions[len(s.versions)-1] }

func (s *source) show() (shown []string) {
	for _, name := range s.names {
		if uid, held := s.uids[name]; held {
			shown = append(shown, name+"/"+uid)
		}
	}
	return shown
}

// heldSince reports whether a name with this uid was in the source at some instant from the given one until now.
func (s *source) heldSince(name, uid string, from time.Duration) bool {
	return slices.ContainsFunc(s.spans[name], func(sp span) bool { return sp.uid == uid && (sp.to == 0 || sp.to >= from) })
}

// list answers a request that a leader made at this instant: with what is there when it is served, some time between
// the request and the answer. What proves the list is the time of the request.
func (s *source) list(l *leader) {
	w, asked := s.w, l.now().Mono
	if s.fails(l) {
		l.fromSource(w.between(time.Millisecond, 2*time.Second), func() allowlist.Input { return allowlist.SourceFailed{Err: s.failure()} })
		return
	}
	var served version
	var read uint64
	w.after(w.between(500*time.Microsecond, 10*time.Millisecond)+w.between(0, s.slow/2), func() {
		if !s.fails(l) {
			l.reads++
			served, read = s.newest(), l.reads
		}
	})
	late := s.slow/2 + w.between(10*time.Millisecond, 20*time.Millisecond) + w.between(0, s.slow/2)
	l.fromSource(late, func() allowlist.Input {
		if served.order == 0 {
			return allowlist.SourceFailed{Err: s.failure()}
		}
		return s.answer(l, served, read, asked)
	})
}

// fails reports that a leader learns nothing from the source now.
func (s *source) fails(l *leader) bool { return s.broken || s.refusing || l.cutFromSource }

func (s *source) failure() error {
	if s.kind == allowlist.SourceFile {
		return errFile
	}
	return errNoAnswer
}

// answer makes the input of a list. An API server that fell back serves one that is older than the last one used; a
// writer that has used none asks for a consistent one, which does not fall back.
func (s *source) answer(l *leader, served version, read uint64, asked time.Duration) allowlist.Input {
	if s.kind == allowlist.SourceFile {
		return allowlist.Listed{
			List: served.list, Version: "hash-" + strconv.FormatUint(served.order, 10), Order: read, Kind: allowlist.ProofFile, ProvenAt: asked,
		}
	}
	if l.used > 1 && s.w.chance(s.stale) {
		served = s.versions[s.w.random.Uint64N(l.used-1)]
		s.w.note("%s is given the old version %d after %d", l.name, served.order, l.used)
	}
	l.used = max(l.used, served.order)
	return allowlist.Listed{
		List: served.list, Version: strconv.FormatUint(served.order, 10), Order: served.order, Kind: allowlist.ProofList, ProvenAt: asked,
	}
}
