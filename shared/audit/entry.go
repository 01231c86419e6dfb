package audit

import (
	"encoding/json"
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// MaxEntryBytes bounds the JSON of an Entry. The stream refuses longer messages.
const MaxEntryBytes = 4 << 10

// Keys of the log line and of the JSON that package telemetry does not have.
const (
	keyInstance  = "instance"
	keySeq       = "seq"
	keyGateway   = "gateway"
	keyCall      = "call"
	keyOutcome   = "outcome"
	keyReason    = "reason"
	keyStep      = "step"
	keyNamespace = "namespace"
	keyPodUID    = "pod_uid"
	keySandboxID = "sandbox_id"
	keyAllowlist = "allowlist"
	keyEpoch     = "epoch"
	keyRevision  = "revision"
	keyAgeMS     = "allowlist_age_ms"
	keyTokenHash = "token_hash"
	keyTokenKey  = "token_key"
	keyRequestID = "request_id"
	keyCaller    = "caller"
	keyStream    = "stream"
	keySubject   = "subject"
)

// What an Entry says of the allowlist.
const (
	allowlistProven   = "proven"
	allowlistUnproven = "unproven"
)

// entry is event as it may be kept, without what only a Trail knows. Its texts have the bounds of this package; one that
// was within them is the caller's own.
func entry(event *Event, now time.Time) Entry {
	d := &event.Decision
	e := Entry{
		Time:       instant(event.Time, now),
		Call:       identifier(event.Call, maxWord),
		Outcome:    d.Outcome().String(),
		Reason:     identifier(string(d.Reason), maxWord),
		Step:       identifier(d.Step, maxID),
		Code:       d.Code().String(),
		Namespace:  identifier(event.Namespace, maxName),
		PodUID:     identifier(event.PodUID, maxID),
		SandboxID:  identifier(event.SandboxID, maxID),
		Token:      event.Token.hash,
		TokenKey:   event.Token.key,
		RequestID:  RequestID(event.RequestID),
		Caller:     identifier(event.Caller, maxName),
		DurationMS: telemetry.DurationMS(event.Duration),
	}
	if list := d.Allowlist; list != (verdict.Evidence{}) {
		e.Allowlist, e.Epoch, e.Revision = allowlistUnproven, list.Epoch, list.Revision
		if list.Proven {
			e.Allowlist, e.AgeMS = allowlistProven, telemetry.DurationMS(list.Age)
		}
	}
	return e
}

// instant is at in UTC; now when there is none, or one that JSON has no spelling for.
func instant(at, now time.Time) time.Time {
	if year := at.UTC().Year(); at.IsZero() || year < 0 || year > 9999 {
		return now.UTC()
	}
	return at.UTC()
}

// encode is the message of e. It has no error to give: texts and finite numbers always encode.
func (e *Entry) encode() []byte {
	text, err := json.Marshal(e)
	if err != nil {
		panic("audit: an entry does not encode: " + err.Error())
	}
	return text
}

// write sends e to the log, under the keys of its JSON.
func (e *Entry) write(line *zerolog.Event) {
	line.Str(keyInstance, e.Instance).Uint64(keySeq, e.Seq).Str(keyGateway, e.Gateway).
		Str(keyCall, e.Call).Str(keyOutcome, e.Outcome)
	some(line, keyReason, e.Reason)
	some(line, keyStep, e.Step)
	line.Str(telemetry.KeyGRPCCode, e.Code)
	some(line, keyNamespace, e.Namespace)
	some(line, keyPodUID, e.PodUID)
	some(line, keySandboxID, e.SandboxID)
	some(line, keyAllowlist, e.Allowlist)
	if e.Epoch != 0 {
		line.Uint64(keyEpoch, e.Epoch)
	}
	if e.Revision != 0 {
		line.Uint64(keyRevision, e.Revision)
	}
	if e.AgeMS != 0 {
		line.Float64(keyAgeMS, e.AgeMS)
	}
	some(line, keyTokenHash, e.Token)
	some(line, keyTokenKey, e.TokenKey)
	some(line, keyRequestID, e.RequestID)
	some(line, keyCaller, e.Caller)
	line.Float64(telemetry.KeyDurationMS, e.DurationMS).Msg("decision")
}

func some(line *zerolog.Event, key, text string) {
	if text != "" {
		line.Str(key, text)
	}
}
