package allowkv

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Keys of a publisher's log lines besides those of telemetry.
const (
	logKeyEpoch      = "epoch"
	logKeyRevision   = "revision"
	logKeyNamespaces = "namespaces"
	logKeyAdded      = "added"
	logKeyRemoved    = "removed"
	// Names in order, the first few.
	logKeyAddedNames   = "added_names"
	logKeyRemovedNames = "removed_names"
	logKeyRecord       = "record"
)

const (
	// findingEvery is how often one kind of finding on one key is logged at most, and findingAnew how often when it
	// has another text than the last time; the counter has them all.
	findingEvery = 10 * time.Second
	findingAnew  = time.Second
	// namesLogged is how many names one line gives for each side of a change.
	namesLogged = 10
)

// termReport logs and counts what happens in one term. It belongs to the goroutine that owns the Writer.
type termReport struct {
	log      zerolog.Logger
	metrics  *publisherMetrics
	findings map[findingID]*findingRate

	leading   bool
	revision  uint64
	withdrawn string
	// listed is the newest list that the source gave and the Writer took, sent the one in the newest snapshot sent,
	// and stored the one in the newest revision, if known.
	listed, sent, stored allowlist.List
	known                bool
}

type findingID struct {
	kind allowlist.FindingKind
	key  string
}

type findingRate struct {
	last time.Duration
	text string
	held int
}

// due reports whether a finding is to be logged now.
func (r *findingRate) due(now time.Duration, text string) bool {
	switch {
	case r == nil:
		return true
	case text != r.text:
		return now-r.last >= findingAnew
	default:
		return now-r.last >= findingEvery
	}
}

func newTermReport(p *Publisher) *termReport {
	return &termReport{log: p.log, metrics: p.metrics, findings: map[findingID]*findingRate{}}
}

// step takes one step of the Writer: what it was told, what it planned, and what it is now.
func (r *termReport) step(at allowlist.Instant, input allowlist.Input, plan allowlist.Plan, status allowlist.WriterStatus) {
	refused := false
	for _, f := range plan.Findings {
		r.finding(at.Mono, f)
		refused = refused || f.Kind == allowlist.FoundOldList
	}
	if in, ok := input.(allowlist.Listed); ok && !refused {
		r.listed = in.List
	}
	r.changed(input, status)
	// After the change of the revision before it: a Writer sends the list that the source gave last.
	if w, ok := plan.Action.(allowlist.Write); ok && w.TTL == 0 {
		r.sent = r.listed
	}
}

// changed logs a new revision, and a list that is withdrawn or is vouched for again.
func (r *termReport) changed(input allowlist.Input, status allowlist.WriterStatus) {
	if status.Leading && (!r.leading || status.Revision != r.revision) {
		_, written := input.(allowlist.Written)
		r.published(status, written)
		r.leading, r.revision = true, status.Revision
		r.stored, r.known = r.sent, written
	}
	if !r.leading || status.Withdrawn == r.withdrawn {
		return
	}
	r.withdrawn = status.Withdrawn
	if r.withdrawn == "" {
		r.log.Info().Uint64(logKeyEpoch, status.Epoch).Msg("the list is no longer withdrawn")
		return
	}
	r.log.Error().Uint64(logKeyEpoch, status.Epoch).Str(telemetry.KeyCause, r.withdrawn).
		Msg("the list is withdrawn: readers refuse every namespace")
}

// published logs a revision that the bucket holds. written says that its own write was acknowledged: only then is it
// certain which list it is.
func (r *termReport) published(status allowlist.WriterStatus, written bool) {
	line := r.log.Info().Uint64(logKeyEpoch, status.Epoch).Uint64(logKeyRevision, status.Revision).Int(logKeyNamespaces, status.Namespaces)
	switch {
	case !r.leading:
		line.Msg("took over the list")
	case !written || !r.known:
		line.Msg("published a revision; what it changed is not known, because a write before it was in doubt")
	default:
		d := allowlist.Diff(r.stored, r.sent)
		line.Int(logKeyAdded, len(d.Added)).Int(logKeyRemoved, len(d.Removed)).
			Strs(logKeyAddedNames, firstNames(d.Added)).Strs(logKeyRemovedNames, firstNames(d.Removed)).
			Msg("published a revision")
	}
}

func firstNames(entries []allowlist.Entry) []string {
	names := make([]string, min(len(entries), namesLogged))
	for i := range names {
		names[i] = entries[i].Name
	}
	return names
}

// finding counts f, and logs it unless its like was logged a moment ago. The count in the line is how many were not.
func (r *termReport) finding(now time.Duration, f allowlist.Finding) {
	r.metrics.findings.WithLabelValues(f.Kind.String(), f.Cause.String()).Inc()
	id := findingID{f.Kind, f.Key}
	text, rate := gist(f.Err), r.findings[id]
	if !rate.due(now, text) {
		rate.held++
		return
	}
	line := r.log.WithLevel(findingLevel(f.Kind)).Err(f.Err).Str(telemetry.KeyKind, f.Kind.String())
	if f.Key != "" {
		line = line.Str(logKeyRecord, f.Key)
	}
	if f.Cause != 0 {
		line = line.Stringer(telemetry.KeyCause, f.Cause)
	}
	if rate != nil && rate.held > 0 {
		line = line.Int(telemetry.KeyCount, rate.held)
	}
	line.Msg("allowlist writer: " + findingText(f.Kind))
	r.findings[id] = &findingRate{last: now, text: text}
}

// farewell tells what a clean stop left behind.
func (r *termReport) farewell(f allowlist.Farewell, epoch uint64) {
	var text string
	switch f {
	case allowlist.FarewellSucceeded:
		text = "stopped: a successor has written, and the list is its"
	case allowlist.FarewellWithdrawn:
		text = "stopped: no successor has written, and the list is withdrawn"
	case allowlist.FarewellUnknown:
		text = "stopped: whether a successor has written is not known; readers refuse after max_staleness unless one has"
	default:
		return
	}
	r.log.Info().Uint64(logKeyEpoch, epoch).Msg(text)
}

// gist is the text by which a finding is the same as the last one. Why there is no connection is natsconn's to log, and
// it words it anew at each attempt.
func gist(err error) string {
	if errors.Is(err, natsconn.ErrNotConnected) {
		return natsconn.ErrNotConnected.Error()
	}
	return fmt.Sprint(err)
}

// findingLevel is error for what does not happen in a healthy installation (see allowlist.FindingKind).
func findingLevel(kind allowlist.FindingKind) zerolog.Level {
	switch kind {
	case allowlist.FoundRejected, allowlist.FoundOldList, allowlist.FoundTooLarge, allowlist.FoundClockBack, allowlist.FoundKeyGone:
		return zerolog.ErrorLevel
	default:
		return zerolog.WarnLevel
	}
}

// findingText is what a kind means for the list.
func findingText(kind allowlist.FindingKind) string {
	switch kind {
	case allowlist.FoundRejected:
		return "a record in the bucket is of no writer, and will be overwritten: find out who can write there"
	case allowlist.FoundGone:
		return "a key of the bucket was removed or has expired, and will be written again"
	case allowlist.FoundForeign:
		return "the bucket has fallen back to an earlier writer's record, which will be overwritten"
	case allowlist.FoundStall:
		return "the process was not running for a while"
	case allowlist.FoundSleep:
		return "the machine slept: the term ends"
	case allowlist.FoundClockStep:
		return "the wall clock was put forward"
	case allowlist.FoundClockBack:
		return "the monotonic clock went back: the term ends"
	case allowlist.FoundOldList:
		return "the source gave a list older than the last one, which is refused"
	case allowlist.FoundTooLarge:
		return "the list is too large and is withdrawn: list fewer namespaces or raise the server's max_payload"
	case allowlist.FoundUnproven:
		return "the source is not proven: heartbeats stop"
	case allowlist.FoundKeyGone:
		return "the signing key was taken from the public keys: the term ends; give this process a key that is among them, or put its line back"
	case allowlist.FoundDoubt:
		return "a write or read of the bucket had no certain outcome"
	default:
		return kind.String()
	}
}
