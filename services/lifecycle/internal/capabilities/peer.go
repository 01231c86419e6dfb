package capabilities

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	extensionv1 "github.com/portcullis-mesh/portcullis/proto/openshell/extension/v1"
)

// The capabilities of contract 2.3 that the driver knows.
const (
	// Contract is the base contract.
	Contract = "openshell.compute.contract"
	// LaunchAuthentication: every launch carries the credential bundle.
	LaunchAuthentication = "openshell.compute.launch-authentication"
)

// Major is the version of the handshake; minors are not compared (contract 2.3).
const Major = 1

// Limits of contract 2.3.
const (
	maxText         = 128
	maxCapabilities = 128
	minSegments     = 3
	capabilityRoot  = "openshell."
)

// CheckPeer says what in one side's metadata breaks contract 2.3, all of it; nil when nothing does. The errors name fields by
// their path and hold nothing longer than the limits.
func CheckPeer(peer *extensionv1.PeerMetadata) error {
	if peer == nil {
		return errors.New("is missing")
	}
	var problems []error
	if version := peer.GetProtocolVersion(); version == nil {
		problems = append(problems, errors.New("protocol_version: is missing"))
	} else if version.GetMajor() != Major {
		problems = append(problems, fmt.Errorf("protocol_version: is %d.%d, and the major version must be %d", version.GetMajor(), version.GetMinor(), Major))
	}
	for _, text := range []struct{ field, value string }{
		{"implementation_name", peer.GetImplementationName()},
		{"implementation_version", peer.GetImplementationVersion()},
	} {
		if text.value == "" || len(text.value) > maxText || !utf8.ValidString(text.value) || strings.ContainsFunc(text.value, unicode.IsControl) {
			problems = append(problems, fmt.Errorf("%s: must be 1 to %d bytes of text without control characters", text.field, maxText))
		}
	}
	problems = append(problems,
		checkList("supported_capabilities", peer.GetSupportedCapabilities()),
		checkList("required_capabilities", peer.GetRequiredCapabilities()))
	return errors.Join(problems...)
}

func checkList(field string, list []string) error {
	if len(list) > maxCapabilities {
		return fmt.Errorf("%s: has %d entries, and at most %d are allowed", field, len(list), maxCapabilities)
	}
	var problems []error
	seen := map[string]bool{}
	for i, capability := range list {
		switch {
		case !wellFormed(capability):
			problems = append(problems, fmt.Errorf(
				"%s[%d]: must be at most %d bytes, begin with %q and have %d or more segments of a-z, 0-9 and '-' between dots",
				field, i, maxText, capabilityRoot, minSegments))
		case seen[capability]:
			problems = append(problems, fmt.Errorf("%s[%d]: %q is there twice", field, i, capability))
		}
		seen[capability] = true
	}
	return errors.Join(problems...)
}

func wellFormed(capability string) bool {
	if len(capability) > maxText || !strings.HasPrefix(capability, capabilityRoot) {
		return false
	}
	segments := strings.Split(capability, ".")
	outside := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	return len(segments) >= minSegments && !slices.ContainsFunc(segments, func(s string) bool {
		return s == "" || strings.ContainsFunc(s, outside)
	})
}

// lacking is what of the required capabilities is not supported, sorted.
func lacking(required, supported []string) []string {
	var missing []string
	for _, capability := range required {
		if !slices.Contains(supported, capability) {
			missing = append(missing, capability)
		}
	}
	slices.Sort(missing)
	return missing
}
