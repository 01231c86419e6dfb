package allowkv

import (
	"github.com/nats-io/nats.go"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// Headers by which KV clients and the server mark what a message does to its key (NATS reference 2.1, 2.3).
const (
	headerOperation = "KV-Operation"
	headerMarker    = "Nats-Marker-Reason"
	headerRollup    = "Nats-Rollup"
)

// operation tells what a message does to its key. What a writer of this package never sends is unknown, and ends
// Fresh (rule R6): a rollup with a value too, because it removes other messages.
func operation(header nats.Header, value []byte) allowlist.Operation {
	switch marker := header.Get(headerMarker); marker {
	case "":
	case "MaxAge":
		return allowlist.OperationExpire
	case "Purge":
		return allowlist.OperationPurge
	case "Remove":
		return allowlist.OperationDelete
	default:
		return allowlist.OperationUnknown
	}
	switch header.Get(headerOperation) {
	case "DEL":
		return allowlist.OperationDelete
	case "PURGE":
		return allowlist.OperationPurge
	case "":
	default:
		return allowlist.OperationUnknown
	}
	if header.Get(headerRollup) != "" || len(value) == 0 {
		return allowlist.OperationUnknown
	}
	return allowlist.OperationPut
}
