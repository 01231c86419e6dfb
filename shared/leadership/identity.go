package leadership

import (
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
)

const (
	suffixBytes = 5
	// maxPodName leaves room for the suffix in the 128 bytes of a writer's name.
	maxPodName = 100
)

// notInIdentity is what the name of a writer in the allowlist's records may not hold.
var notInIdentity = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// NewIdentity is the name of this process as the Lease and, of nswatch, the allowlist's records show it: the Pod's or host's
// name, or the daemon's when that is empty, and a suffix from random, because a container that starts again in its Pod is another
// process. The error is random's.
func NewIdentity(daemon, pod string, random io.Reader) (string, error) {
	var suffix [suffixBytes]byte
	if _, err := io.ReadFull(random, suffix[:]); err != nil {
		return "", fmt.Errorf("draw the random part of the process's name: %w", err)
	}
	pod = notInIdentity.ReplaceAllString(pod, "-")
	if len(pod) > maxPodName {
		pod = pod[:maxPodName]
	}
	if pod == "" {
		pod = daemon
	}
	return pod + "-" + hex.EncodeToString(suffix[:]), nil
}
