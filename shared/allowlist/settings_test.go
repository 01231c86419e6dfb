package allowlist

import (
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

func problems(s Settings) map[string]string {
	found := map[string]string{}
	s.Validate(func(key, problem string) { found[key] = strings.TrimPrefix(found[key]+"; "+problem, "; ") })
	return found
}

func TestSettings(t *testing.T) {
	if found := problems(DefaultSettings()); len(found) > 0 {
		t.Fatalf("the defaults are refused: %v", found)
	}
	for _, c := range []struct {
		name, key, want string
		breakIt         func(*Settings)
	}{
		{"interval zero", "heartbeat_interval", "from 100ms to 10s", func(s *Settings) { s.HeartbeatInterval = 0 }},
		{"interval negative", "heartbeat_interval", "from 100ms", func(s *Settings) { s.HeartbeatInterval = -1 }},
		{"interval too long", "heartbeat_interval", "to 10s", func(s *Settings) {
			s.HeartbeatInterval, s.HeartbeatTTL, s.MaxStaleness, s.SourceMaxAge = seconds(11), seconds(22), seconds(60), seconds(60)
		}},
		{"ttl with fraction", "heartbeat_ttl", "whole seconds", func(s *Settings) { s.HeartbeatTTL = seconds(2.5) }},
		{"ttl of one interval", "heartbeat_ttl", "would expire", func(s *Settings) { s.HeartbeatTTL = seconds(1) }},
		{"ttl beyond staleness", "heartbeat_ttl", "more than max_staleness", func(s *Settings) { s.HeartbeatTTL = seconds(16) }},
		{"staleness under 3s", "max_staleness", "from 3s", func(s *Settings) { s.MaxStaleness, s.HeartbeatTTL, s.StopGrace = seconds(2.9), seconds(2), 0 }},
		{"staleness of two intervals", "max_staleness", "one lost beat", func(s *Settings) {
			s.HeartbeatInterval, s.HeartbeatTTL, s.MaxStaleness = seconds(6), seconds(12), seconds(15)
		}},
		{"skew zero", "max_clock_skew", "from 1s", func(s *Settings) { s.MaxClockSkew = 0 }},
		{"source age too long", "source_max_age", "to 10m", func(s *Settings) { s.SourceMaxAge = driverconf.Duration(time.Hour) }},
		{"source age under an interval", "source_max_age", "could not beat", func(s *Settings) {
			s.HeartbeatInterval, s.HeartbeatTTL, s.SourceMaxAge, s.FilePoll, s.LabelRelist = seconds(4), seconds(8), seconds(3), seconds(1), seconds(1)
		}},
		{"grace too long", "file_failure_grace", "to 1h", func(s *Settings) { s.FileFailureGrace = driverconf.Duration(2 * time.Hour) }},
		{"grace under a poll", "file_failure_grace", "no second read", func(s *Settings) { s.FileFailureGrace = seconds(1) }},
		{"poll too rare", "file_poll", "half of source_max_age", func(s *Settings) { s.FilePoll = seconds(5.1) }},
		{"relist too rare", "label_relist", "half of source_max_age", func(s *Settings) { s.LabelRelist = seconds(5.1) }},
		{"gather too long", "gather_additions", "to 100ms", func(s *Settings) { s.GatherAdditions = seconds(0.2) }},
		{"gather of an interval", "gather_additions", "not less than heartbeat_interval", func(s *Settings) {
			s.HeartbeatInterval, s.GatherAdditions = seconds(0.1), seconds(0.1)
		}},
		{"stop grace beyond staleness", "stop_grace", "readers have closed", func(s *Settings) { s.StopGrace = seconds(16) }},
		{"refuse everything", "refused_namespaces", `"*"`, func(s *Settings) { s.RefusedNamespaces = []string{"*"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := DefaultSettings()
			c.breakIt(&s)
			found := problems(s)
			if !strings.Contains(found[c.key], c.want) || len(found) != 1 {
				t.Errorf("problems %v, want one of %s with %q", found, c.key, c.want)
			}
			if checkSettings(s) == nil {
				t.Error("a constructor takes them")
			}
		})
	}
	if found := problems(Settings{}); len(found) < 8 {
		t.Errorf("the zero Settings has only %v", found)
	}
	s := DefaultSettings()
	if got := s.Revocation(); got != 25*time.Second {
		t.Errorf("revocation takes at worst %s", got)
	}
}

// TestNothingIsRefusedByDefault: the setting adds to what the writer always refuses.
func TestNothingIsRefusedByDefault(t *testing.T) {
	if refused := DefaultSettings().RefusedNamespaces; len(refused) != 0 {
		t.Errorf("refused by default: %v", refused)
	}
}
