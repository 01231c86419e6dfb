package allowkv

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Keys of log lines of readers.
const (
	logGateway    = "gateway_id"
	logState      = "state"
	logReason     = "reason"
	logEpoch      = "epoch"
	logRevision   = "revision"
	logNamespaces = "namespaces"
	logKeyIDs     = "key_ids"
	logKVKey      = "kv_key"
	logAgeMS      = "age_ms"
)

// episodeEnd is how long something must not have happened for its next time to be logged again.
const episodeEnd = time.Minute

// readerLog writes the lines of one Reader: each change of state, and of everything that repeats itself, the first
// time. The metrics have them all. It belongs to the owner of the reader.
type readerLog struct {
	zerolog.Logger
	episodes map[episode]*spell
	old      bool
}

// episode is something that may repeat itself. There are few of them, whatever a broker sends.
type episode struct {
	kind, cause, key string
}

// spell is one episode's course.
type spell struct {
	newest time.Duration
	logged time.Duration
	text   string
	held   int
}

// first reports whether e is to be logged now, and how many times it was not since the last. With another text than the
// last one that was logged it is, too, a moment later at the soonest.
func (l *readerLog) first(e episode, text string, now time.Duration) (held int, first bool) {
	s := l.episodes[e]
	if s == nil {
		if l.episodes == nil {
			l.episodes = map[episode]*spell{}
		}
		l.episodes[e] = &spell{newest: now, logged: now, text: text}
		return 0, true
	}
	quiet := now-s.newest > episodeEnd
	s.newest = now
	if !quiet && (text == s.text || now-s.logged < findingAnew) {
		s.held++
		return 0, false
	}
	held, s.held, s.logged, s.text = s.held, 0, now, text
	return held, true
}

func (l *readerLog) finding(f allowlist.Finding, now time.Duration) {
	e := episode{kind: f.Kind.String(), cause: f.Cause.String()}
	if f.Kind != allowlist.FoundStray { // its key is anything that the broker likes
		e.key = f.Key
	}
	// Not by its text, in which numbers change with every record.
	held, first := l.first(e, "", now)
	if !first {
		return
	}
	line := l.WithLevel(readerFindingLevel(f.Kind)).Str(telemetry.KeyKind, e.kind)
	if f.Cause != 0 {
		line = line.Str(telemetry.KeyCause, e.cause)
	}
	if e.key != "" {
		line = line.Str(logKVKey, e.key)
	}
	if f.Err != nil {
		line = line.Err(f.Err)
	}
	counted(line, held).Msg("the allowlist reader found something in the bucket or in its clocks")
}

// counted adds how many like it were not logged.
func counted(line *zerolog.Event, held int) *zerolog.Event {
	if held == 0 {
		return line
	}
	return line.Int(telemetry.KeyCount, held)
}

// readerFindingLevel is error for what does not happen in a healthy installation.
func readerFindingLevel(k allowlist.FindingKind) zerolog.Level {
	switch k {
	case allowlist.FoundRejected, allowlist.FoundFork, allowlist.FoundSkew, allowlist.FoundClockBack:
		return zerolog.ErrorLevel
	case allowlist.FoundDuplicate, allowlist.FoundStray:
		return zerolog.DebugLevel
	default:
		return zerolog.WarnLevel
	}
}

// ended tells about a consumer. Those that end with their connection are told of by the connection.
func (l *readerLog) ended(d doubt, now time.Duration) {
	held, first := l.first(episode{kind: "consumer", cause: string(d.cause)}, d.Error(), now)
	if !first {
		return
	}
	level := zerolog.WarnLevel
	if d.cause == doubtSession {
		level = zerolog.DebugLevel
	}
	counted(l.WithLevel(level).Str(telemetry.KeyCause, string(d.cause)).Err(d.err), held).Msg("starting the allowlist consumer afresh")
}

func (l *readerLog) condition(before, now allowlist.Condition, s allowlist.Status, trouble error) {
	if before == now || before == (allowlist.Condition{}) && now.State == allowlist.Unsynced {
		return
	}
	line := l.Info()
	if now.State != allowlist.Fresh {
		line = l.Warn().Str(logReason, string(now.Reason))
		if trouble != nil {
			line = line.Err(trouble)
		}
	}
	line.Str(logState, now.State.String()).Uint64(logEpoch, s.Epoch).Uint64(logRevision, s.Revision).Int(logNamespaces, s.Namespaces).
		Msg("the state of the allowlist has changed")
}

// aging warns once that the proof grows old while it still holds.
func (l *readerLog) aging(old bool, age time.Duration) {
	if old && !l.old {
		l.Warn().Int64(logAgeMS, age.Milliseconds()).Msg("no allowlist heartbeat for a while: the gate closes if this lasts")
	}
	l.old = old
}
