package fenceevidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Claim is a key of a resource claim.
type Claim string

// The claims of contract 13.4.
const (
	NamespaceUID  Claim = "kubernetes.namespace_uid"
	SandboxUID    Claim = "kubernetes.sandbox_resource_uid"
	WorkloadUID   Claim = "kubernetes.workload_pod_uid"
	SupervisorUID Claim = "kubernetes.supervisor_pod_uid"
	PolicyUID     Claim = "kubernetes.egress_policy_uid"
	PolicyVersion Claim = "kubernetes.egress_policy_resource_version"
)

// all are the claims of a complete Evidence.
var all = [...]Claim{NamespaceUID, SandboxUID, WorkloadUID, SupervisorUID, PolicyUID, PolicyVersion}

// Limits of what Decode reads, in bytes.
const (
	MaxSize = 4096
	// MaxValue is the longest generation and the longest value of a claim.
	MaxValue = 253
)

// digestLength is that of SHA-256 in hexadecimal.
const digestLength = 64

// Evidence is what a run was let go behind.
type Evidence struct {
	// Generation is the runtime generation of the bundle, which the digest is made over.
	Generation string `json:"generation"`
	// Digest is 64 lower-case hexadecimal digits.
	Digest string `json:"evidence_digest"`
	// Claims are all six, none of them empty.
	Claims map[Claim]string `json:"resource_claims"`
}

// Encode writes the evidence on one line, the same for the same evidence. An error names what is missing or no value.
func Encode(e Evidence) (string, error) {
	if err := e.check(); err != nil {
		return "", fmt.Errorf("the evidence of the fence: %w", err)
	}
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("write the evidence of the fence: %w", err)
	}
	return string(text), nil
}

// Decode reads what Encode wrote. An error says what is wrong with the text.
func Decode(text string) (Evidence, error) {
	if len(text) > MaxSize {
		return Evidence{}, fmt.Errorf("the evidence of the fence: %d bytes, and at most %d are read", len(text), MaxSize)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	var e Evidence
	if err := d.Decode(&e); err != nil {
		return Evidence{}, fmt.Errorf("read the evidence of the fence: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Evidence{}, errors.New("read the evidence of the fence: more follows behind it")
	}
	if err := e.check(); err != nil {
		return Evidence{}, fmt.Errorf("the evidence of the fence: %w", err)
	}
	return e, nil
}

func (e Evidence) check() error {
	if problem := wrong(e.Generation); problem != "" {
		return fmt.Errorf("generation %s", problem)
	}
	if len(e.Digest) != digestLength || strings.Trim(e.Digest, "0123456789abcdef") != "" {
		return fmt.Errorf("evidence_digest is not %d lower-case hexadecimal digits", digestLength)
	}
	for _, claim := range all {
		if problem := wrong(e.Claims[claim]); problem != "" {
			return fmt.Errorf("resource_claims: %s %s", claim, problem)
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(e.Claims)) {
		if !slices.Contains(all[:], claim) {
			return fmt.Errorf("resource_claims: %.64q is no claim", claim)
		}
	}
	return nil
}

// wrong says why a value is none: contract 13.4 has it non-empty and without whitespace.
func wrong(value string) string {
	switch {
	case value == "":
		return "is missing"
	case len(value) > MaxValue:
		return fmt.Sprintf("has %d bytes, and may have %d", len(value), MaxValue)
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return "has whitespace or a control character"
	}
	return ""
}
