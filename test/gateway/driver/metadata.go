package driver

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	extensionv1 "github.com/portcullis-mesh/portcullis/proto/openshell/extension/v1"
)

// The gateway's capabilities (contract 2.3).
const (
	CapabilityContract = "openshell.compute.contract"
	CapabilityLaunch   = "openshell.compute.launch-authentication"
)

const (
	protocolMajor   = 1
	maxText         = 128 // bytes of a name, a version or a capability
	maxCapabilities = 128 // in a list
)

// Gateway is how the gateway introduces itself.
func Gateway(version string) *extensionv1.PeerMetadata {
	return &extensionv1.PeerMetadata{
		ProtocolVersion:       &extensionv1.ProtocolVersion{Major: protocolMajor, Minor: 0},
		ImplementationName:    "openshell/gateway",
		ImplementationVersion: version,
		SupportedCapabilities: []string{CapabilityContract, CapabilityLaunch},
		RequiredCapabilities:  []string{CapabilityContract},
	}
}

// Compatible checks both sides' metadata against the rules of contract 2.3 and each other. The error names the side, the field
// and the rule.
func Compatible(gateway, driver *extensionv1.PeerMetadata) error {
	for _, side := range []struct {
		name     string
		metadata *extensionv1.PeerMetadata
	}{{"gateway", gateway}, {"driver", driver}} {
		if err := valid(side.metadata); err != nil {
			return fmt.Errorf("%s: %w", side.name, err)
		}
	}
	if got, want := driver.GetProtocolVersion().GetMajor(), gateway.GetProtocolVersion().GetMajor(); got != want {
		return fmt.Errorf("driver: protocol_version: major %d, the gateway has %d; use releases that fit", got, want)
	}
	if missing := lacking(gateway.GetRequiredCapabilities(), driver.GetSupportedCapabilities()); missing != "" {
		return fmt.Errorf("driver: supported_capabilities: without %s, which the gateway requires; upgrade the extension", missing)
	}
	if missing := lacking(driver.GetRequiredCapabilities(), gateway.GetSupportedCapabilities()); missing != "" {
		return fmt.Errorf("driver: required_capabilities: %s, which this gateway does not have", missing)
	}
	return nil
}

func lacking(required, supported []string) string {
	for _, c := range required {
		if !slices.Contains(supported, c) {
			return c
		}
	}
	return ""
}

func valid(m *extensionv1.PeerMetadata) error {
	if m == nil {
		return fmt.Errorf("no metadata; upgrade the extension")
	}
	if m.GetProtocolVersion().GetMajor() != protocolMajor {
		return fmt.Errorf("protocol_version: major %d, not %d", m.GetProtocolVersion().GetMajor(), protocolMajor)
	}
	for _, text := range []struct{ field, value string }{
		{"implementation_name", m.GetImplementationName()}, {"implementation_version", m.GetImplementationVersion()},
	} {
		if text.value == "" || len(text.value) > maxText || strings.ContainsFunc(text.value, unicode.IsControl) {
			return fmt.Errorf("%s: not 1 to %d bytes without control characters", text.field, maxText)
		}
	}
	for _, list := range []struct {
		field string
		names []string
	}{{"supported_capabilities", m.GetSupportedCapabilities()}, {"required_capabilities", m.GetRequiredCapabilities()}} {
		if err := validList(list.names); err != nil {
			return fmt.Errorf("%s: %w", list.field, err)
		}
	}
	return nil
}

func validList(names []string) error {
	if len(names) > maxCapabilities {
		return fmt.Errorf("%d entries, more than %d", len(names), maxCapabilities)
	}
	seen := map[string]bool{}
	for i, name := range names {
		switch {
		case !capability(name):
			return fmt.Errorf("[%d]: no capability: want openshell.x.y of a-z, 0-9 and \"-\", at most %d bytes", i, maxText)
		case seen[name]:
			return fmt.Errorf("[%d]: named twice", i)
		}
		seen[name] = true
	}
	return nil
}

func capability(name string) bool {
	segments := strings.Split(name, ".")
	if len(name) > maxText || len(segments) < 3 || segments[0] != "openshell" {
		return false
	}
	return !slices.ContainsFunc(segments, func(s string) bool {
		return s == "" || strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
	})
}
