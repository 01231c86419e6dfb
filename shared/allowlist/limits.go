package allowlist

import "time"

// Schema is the only schema of snapshots and heartbeats that this code reads and writes.
const Schema = 1

// Limits of a record. A record beyond one of them is not written and not read.
const (
	// MaxNames is how many namespaces one list may hold.
	MaxNames = 100_000
	// MaxPayload is the largest payload in bytes, after decompression.
	MaxPayload = 16 << 20
	// MaxRecord is the largest stored record in bytes: the envelope with everything in it. The server's max_payload,
	// 1 MiB by default (NATS reference 2.4), is usually the narrower limit.
	MaxRecord = 8 << 20
	// PlainLimit is the largest snapshot record in bytes that is stored as readable JSON; beyond it the payload is
	// compressed, and only then.
	PlainLimit = 512 << 10
	// MaxChanges is how many names each side of a snapshot's changes lists before it only counts.
	MaxChanges = 100
)

const (
	maxHeartbeat = 4 << 10
	maxWhole     = 1<<53 - 1 // the largest integer that every JSON reader keeps exact
	maxMonoMS    = 100 * 366 * 24 * 3_600_000
	maxSourceAge = 10 * time.Minute
	maxTTL       = time.Hour

	maxUID     = 64
	maxWriter  = 128
	maxText    = 4096
	maxVersion = 128
	maxReason  = 256
)
