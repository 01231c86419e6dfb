package driverconf

import (
	"fmt"
	"strings"
	"time"
)

// Mode says how workspaces map to namespaces (contract 3.1, 4.1). The zero value
// is no mode: nothing may be placed with it.
type Mode string

// The three modes.
const (
	// ModeShared places every sandbox in the one namespace of the settings.
	ModeShared Mode = "shared"
	// ModeManaged makes and removes one namespace per workspace.
	ModeManaged Mode = "managed"
	// ModeOperator uses namespaces that a platform team made and lists.
	ModeOperator Mode = "operator"
)

// UnmarshalText accepts the three modes, exactly as written in the contract.
func (m *Mode) UnmarshalText(text []byte) error {
	switch v := Mode(text); v {
	case ModeShared, ModeManaged, ModeOperator:
		*m = v
		return nil
	default:
		return fmt.Errorf("%s is not a workspace mode; use shared, managed or operator", quote(string(text)))
	}
}

// MarshalText is the inverse of UnmarshalText.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m), nil }

// PullPolicy is a container image pull policy in the Kubernetes spelling. The
// empty value leaves the choice to the cluster.
type PullPolicy string

// The Kubernetes pull policies.
const (
	PullUnset        PullPolicy = ""
	PullAlways       PullPolicy = "Always"
	PullIfNotPresent PullPolicy = "IfNotPresent"
	PullNever        PullPolicy = "Never"
)

// UnmarshalText accepts both spellings of contract 3.1 (always and Always,
// if_not_present and IfNotPresent, never and Never) and the empty string.
func (p *PullPolicy) UnmarshalText(text []byte) error {
	switch string(text) {
	case "":
		*p = PullUnset
	case "always", "Always":
		*p = PullAlways
	case "if_not_present", "IfNotPresent":
		*p = PullIfNotPresent
	case "never", "Never":
		*p = PullNever
	default:
		return fmt.Errorf("%s is not a pull policy; use always, if_not_present or never", quote(string(text)))
	}
	return nil
}

// MarshalText renders the Kubernetes spelling.
func (p PullPolicy) MarshalText() ([]byte, error) { return []byte(p), nil }

// LogLevel is the least severe level that is written. Its text is what
// zerolog.ParseLevel reads. The zero value is no level.
type LogLevel string

// The levels, most talkative first.
const (
	LogTrace LogLevel = "trace"
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// UnmarshalText accepts the five levels in lower case.
func (l *LogLevel) UnmarshalText(text []byte) error {
	switch v := LogLevel(text); v {
	case LogTrace, LogDebug, LogInfo, LogWarn, LogError:
		*l = v
		return nil
	default:
		return fmt.Errorf("%s is not a log level; use trace, debug, info, warn or error", quote(string(text)))
	}
}

// MarshalText is the inverse of UnmarshalText.
func (l LogLevel) MarshalText() ([]byte, error) { return []byte(l), nil }

// Duration is a span of time that a section writes as text, such as "15s" or
// "1h30m". TOML has no duration and a bare number would hide its unit, so a
// number is refused. Limits, including the sign, are the section's business.
type Duration time.Duration

// Std returns the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String renders the duration as UnmarshalText reads it.
func (d Duration) String() string { return time.Duration(d).String() }

// UnmarshalText reads the syntax of time.ParseDuration. A number without a unit
// is an error, except 0.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s is not a duration; use a number with a unit, such as \"15s\" or \"2m\"", quote(string(text)))
	}
	*d = Duration(v)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
