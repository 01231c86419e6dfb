package allowkv

import (
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

const (
	// Bucket is the KV bucket of all allowlists of an account.
	Bucket = "portcullis_allowlist"
	// Stream is the JetStream stream behind Bucket.
	Stream = "KV_" + Bucket
)

// subjectPrefix stands before every key of Bucket in a subject.
const subjectPrefix = "$KV." + Bucket + "."

// subject is where a message on key is published and stored.
func subject(key string) string { return subjectPrefix + key }

// keyOf is the key of a subject of Bucket; the whole subject when it is of no key, which no reader asks for.
func keyOf(subject string) string { return strings.TrimPrefix(subject, subjectPrefix) }

// keys are the two keys of a gateway, in the order in which records are written.
func keys(gatewayID string) [2]string {
	return [2]string{allowlist.SnapshotKey(gatewayID), allowlist.HeartbeatKey(gatewayID)}
}
