package workspace

import (
	"fmt"
	"strconv"
	"strings"
)

// Names of objects that exist once per namespace (contract 4.2).
const (
	WorkloadFence    = "openshell-sandbox-workloads"
	SupervisorEgress = "openshell-sandbox-supervisors"
	SSHIngress       = "openshell-sandbox-ssh"
)

// ClaimTemplate is the name of the claim template from which the Agent Sandbox controller makes the workspace volume.
const ClaimTemplate = "workspace"

// MaxSandboxID is the longest sandbox id whose companions all have names of at most 63 characters (contract 4.2).
const MaxSandboxID = 36

// MaxPullSecrets is how many copies of pull Secrets one generation can name.
const MaxPullSecrets = 10_000

// generationPart is how many characters of a generation go into a name (contract 4.2).
const generationPart = 12

// CheckSandboxID says why id cannot be the id of a sandbox with companions: lower-cased it must be a DNS-1123 label, and
// at most MaxSandboxID characters. Ids that differ only in case have the same companions.
func CheckSandboxID(id string) error {
	if len(id) > MaxSandboxID {
		return fmt.Errorf("sandbox id %s has %d characters, at most %d leave room for the names of its objects", quote(id), len(id), MaxSandboxID)
	}
	if !isLabel(Pair(id)) {
		return fmt.Errorf("sandbox id %s must be a DNS-1123 label when it is written in lower case", quote(id))
	}
	return nil
}

// CheckGeneration says why a generation cannot name Secrets: it has neither letter nor digit.
func CheckGeneration(generation string) error {
	if shortGeneration(generation) == "" {
		return fmt.Errorf("generation %s has no letter or digit to name Secrets with", quote(generation))
	}
	return nil
}

// Pair is the value of LabelBoundaryPair, and how an id stands in names: in lower case.
func Pair(sandboxID string) string { return lower(sandboxID) }

// BoundaryService is the name of the Service in front of the workload.
func BoundaryService(sandboxID string) string { return "os-boundary-" + Pair(sandboxID) }

// SupervisorPod is the name of the supervisor Pod.
func SupervisorPod(sandboxID string) string { return "os-supervisor-" + Pair(sandboxID) }

// SandboxSecret is the name of the bootstrap Secret of the workload Pod for one generation. Generations that share their
// first 12 letters and digits share the name, so a Secret that exists is never adopted (contract 4.2).
func SandboxSecret(sandboxID, generation string) string {
	return "os-sandbox-" + Pair(sandboxID) + "-" + shortGeneration(generation)
}

// SupervisorSecret is the same for the supervisor Pod.
func SupervisorSecret(sandboxID, generation string) string {
	return "os-supervisor-" + Pair(sandboxID) + "-" + shortGeneration(generation)
}

// PullSecret is the name of the copy of one image pull Secret; index is from 0 to MaxPullSecrets-1.
func PullSecret(sandboxID, generation string, index int) string {
	return "os-pull-" + Pair(sandboxID) + "-" + shortGeneration(generation) + "-" + strconv.Itoa(index)
}

// WorkspaceClaim is the name of the volume claim that the Agent Sandbox controller makes for a Sandbox object.
func WorkspaceClaim(sandboxName string) string { return ClaimTemplate + "-" + sandboxName }

// shortGeneration is the first 12 ASCII letters and digits of a generation, in lower case.
func shortGeneration(generation string) string {
	var b strings.Builder
	for i := 0; i < len(generation) && b.Len() < generationPart; i++ {
		if c := generation[i]; c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			b.WriteByte(c)
		}
	}
	return lower(b.String())
}

// lower changes ASCII only: another alphabet must not fold into it.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}, s)
}
