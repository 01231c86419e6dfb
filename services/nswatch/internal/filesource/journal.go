package filesource

import (
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

const (
	// maxCauses is how many different causes of one result are logged, and reminder after how long the result is news
	// again: a file that is bad in ever new ways must not flood the log, and one that stays bad must not be forgotten.
	maxCauses = 10
	reminder  = 5 * time.Minute
	// burst lines may be logged at once, and one every refill after that: a file that is broken and repaired many times
	// a second must not flood the log.
	burst  = 20
	refill = 3 * time.Second

	keyVersion    = "source_version"
	keyNamespaces = "namespaces"
)

// journal logs what people must know and counts the rest. The run loop owns it.
type journal struct {
	log     zerolog.Logger
	metrics *metrics
	limit   *rate.Limiter
	held    int

	// failing says that the last read failed, told what was logged since the last good one.
	failing bool
	told    map[result]*causes
	// notifying is what is known about the notifications.
	notifying notifying
}

// causes are those of one result that were logged, since the first.
type causes struct {
	since time.Duration
	texts map[string]struct{}
}

// notifying is a state of the notifications.
type notifying uint8

const (
	notifyingUnknown notifying = iota
	notifyingOn
	notifyingOff
)

func newJournal(log zerolog.Logger, m *metrics) *journal {
	return &journal{log: log, metrics: m, limit: rate.NewLimiter(rate.Every(refill), burst), told: map[result]*causes{}}
}

// failed takes a read that gave no list. Each cause is logged once until the next good read, or the reminder.
func (j *journal) failed(at time.Duration, err error) {
	kind := resultOf(err)
	j.metrics.reads.WithLabelValues(string(kind)).Inc()
	j.failing = true
	told := j.told[kind]
	if told == nil || at-told.since >= reminder {
		told = &causes{since: at, texts: map[string]struct{}{}}
	}
	if _, seen := told.texts[err.Error()]; seen || len(told.texts) >= maxCauses {
		return
	}
	logged := j.line(zerolog.WarnLevel, "the file of namespaces cannot be used; nothing vouches for the list once its last read is older than source_max_age, "+
		"and after file_failure_grace it is withdrawn", func(e *zerolog.Event) {
		e.Err(err).Str(telemetry.KeyKind, string(kind))
	})
	if logged {
		told.texts[err.Error()] = struct{}{}
		j.told[kind] = told
	}
}

// succeeded takes a read that gave a list.
func (j *journal) succeeded(began time.Time) {
	j.metrics.reads.WithLabelValues(string(resultOK)).Inc()
	j.metrics.last.Set(float64(began.UnixMilli()) / 1000)
	if j.failing {
		j.failing = false
		clear(j.told)
		j.line(zerolog.InfoLevel, "the file of namespaces can be used again", nil)
	}
}

// changed takes the list of a content that was not the one before.
func (j *journal) changed(version string, namespaces int) {
	j.line(zerolog.InfoLevel, "the file of namespaces was read", func(e *zerolog.Event) {
		e.Str(keyVersion, version).Int(keyNamespaces, namespaces)
	})
}

// notifies takes the state of the notifications: nil is working. A change of it is logged.
func (j *journal) notifies(kind trouble, err error) {
	if err == nil {
		j.metrics.working.Set(1)
		if j.notifying == notifyingOff {
			j.line(zerolog.InfoLevel, "changes of the file of namespaces are notified again", nil)
		}
		j.notifying = notifyingOn
		return
	}
	j.metrics.working.Set(0)
	j.metrics.troubles.WithLabelValues(string(kind)).Inc()
	if j.notifying != notifyingOff {
		j.line(zerolog.WarnLevel, "changes of the file of namespaces are not notified; they are found by polling until they are", func(e *zerolog.Event) {
			e.Err(err).Str(telemetry.KeyKind, string(kind))
		})
	}
	j.notifying = notifyingOff
}

// overflowed takes the loss of some notifications: a reload makes up for them.
func (j *journal) overflowed() {
	j.metrics.troubles.WithLabelValues(string(troubleOverflow)).Inc()
}

// stopped says that nothing is notified, because nothing runs.
func (j *journal) stopped() {
	j.metrics.working.Set(0)
	j.notifying = notifyingUnknown
}

// line logs, within the limit; the count in a line is how many were left out before it.
func (j *journal) line(level zerolog.Level, message string, fields func(*zerolog.Event)) (logged bool) {
	if !j.limit.Allow() {
		j.held++
		return false
	}
	e := j.log.WithLevel(level)
	if fields != nil {
		fields(e)
	}
	if j.held > 0 {
		e.Int(telemetry.KeyCount, j.held)
		j.held = 0
	}
	e.Msg(message)
	return true
}
