package audit

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Event is one decision, as the daemon that took it describes it. Every field may be empty. Texts are identifiers: what
// is longer than its limit is cut, what is not printable is replaced, and what looks like a JWT is withheld.
type Event struct {
	// Time of the decision; zero stands for the time of Record.
	Time time.Time
	// Call that asked for the decision, such as "authenticate".
	Call string
	// Decision that was taken. Its explanation and its message are not kept. The zero Decision is a refusal.
	Decision verdict.Decision
	// Namespace that the decision is about.
	Namespace string
	// PodUID and SandboxID of the bearer, as far as they were known.
	PodUID, SandboxID string
	// Token is the fingerprint of the bearer's token.
	Token Fingerprint
	// RequestID ties the event to other lines of the log.
	RequestID string
	// Caller is the authenticated peer that asked.
	Caller string
	// Duration from the request to the decision.
	Duration time.Duration
}

// Entry is an Event as it is kept: the JSON of a message in the stream. Names and meanings of its keys are stable; keys
// may be added. Absent texts are left out. The log line of the event has the same keys, apart from time and daemon, which
// every line has.
type Entry struct {
	// Time of the decision, UTC.
	Time time.Time `json:"time"`
	// Instance is one process of a daemon, 16 hex digits, and Seq counts its events from 1. A number that is missing was
	// dropped, or has yet to come.
	Instance string `json:"instance"`
	Seq      uint64 `json:"seq"`
	Daemon   string `json:"daemon"`
	// Gateway is the gateway id of the settings.
	Gateway string `json:"gateway"`
	Call    string `json:"call"`
	// Outcome is granted, denied or unknown, the last for "could not be found out", which refuses too.
	Outcome string `json:"outcome"`
	// Reason and Step of a refusal (package verdict).
	Reason string `json:"reason,omitempty"`
	Step   string `json:"step,omitempty"`
	// Code is the gRPC code of the answer by its name, such as PermissionDenied.
	Code      string `json:"grpc_code"`
	Namespace string `json:"namespace,omitempty"`
	PodUID    string `json:"pod_uid,omitempty"`
	SandboxID string `json:"sandbox_id,omitempty"`
	// Allowlist says what the decision had of the list: proven, unproven, or nothing when it was not asked.
	Allowlist string `json:"allowlist,omitempty"`
	// Epoch and Revision of the list, absent when the reader held none.
	Epoch    uint64 `json:"epoch,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	// AgeMS is the age of the newest proof of the list, milliseconds, when there was one.
	AgeMS float64 `json:"allowlist_age_ms,omitempty"`
	// Token is the keyed hash of the bearer's token, TokenKey names the key. Hashes of different keys say nothing about
	// each other.
	Token     string `json:"token_hash,omitempty"`
	TokenKey  string `json:"token_key,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Caller    string `json:"caller,omitempty"`
	// DurationMS is the time from the request to the decision, milliseconds.
	DurationMS float64 `json:"duration_ms"`
}
