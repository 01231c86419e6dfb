package allowlist

import (
	"fmt"
	"strings"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// Validate reports every value out of range and every contradiction, each under its key.
func (s *Settings) Validate(report func(key, problem string)) {
	for _, r := range []struct {
		key      string
		value    driverconf.Duration
		min, max time.Duration
	}{
		{"heartbeat_interval", s.HeartbeatInterval, 100 * time.Millisecond, 10 * time.Second},
		{"heartbeat_ttl", s.HeartbeatTTL, time.Second, maxTTL},
		{"max_staleness", s.MaxStaleness, 3 * time.Second, 10 * time.Minute},
		{"max_clock_skew", s.MaxClockSkew, time.Second, 5 * time.Minute},
		{"source_max_age", s.SourceMaxAge, time.Second, maxSourceAge},
		{"file_failure_grace", s.FileFailureGrace, time.Second, time.Hour},
		{"file_poll", s.FilePoll, 100 * time.Millisecond, time.Minute},
		{"label_relist", s.LabelRelist, 500 * time.Millisecond, 5 * time.Minute},
		{"gather_additions", s.GatherAdditions, 0, 100 * time.Millisecond},
		{"stop_grace", s.StopGrace, 0, 10 * time.Minute},
	} {
		if v := r.value.Std(); v < r.min || v > r.max {
			report(r.key, fmt.Sprintf("is %s, must be from %s to %s", v, r.min, r.max))
		}
	}
	s.contradictions(report)
	if _, err := ParseRefusals(s.RefusedNamespaces...); err != nil {
		report("refused_namespaces", err.Error())
	}
}

func (s *Settings) contradictions(report func(key, problem string)) {
	if s.HeartbeatTTL.Std()%time.Second != 0 {
		report("heartbeat_ttl", fmt.Sprintf("is %s, must be whole seconds: the server counts in them", s.HeartbeatTTL))
	}
	for _, r := range []struct {
		key    string
		broken bool
		why    string
	}{
		{
			"heartbeat_ttl", s.HeartbeatTTL < 2*s.HeartbeatInterval,
			fmt.Sprintf("is %s, less than two of heartbeat_interval (%s): beats of a healthy writer would expire", s.HeartbeatTTL, s.HeartbeatInterval),
		},
		{
			"heartbeat_ttl", s.HeartbeatTTL > s.MaxStaleness,
			fmt.Sprintf("is %s, more than max_staleness (%s): the bucket would show a writer that no reader trusts any more", s.HeartbeatTTL, s.MaxStaleness),
		},
		{
			"max_staleness", s.MaxStaleness < 3*s.HeartbeatInterval,
			fmt.Sprintf("is %s, less than three of heartbeat_interval (%s): one lost beat would close the gate", s.MaxStaleness, s.HeartbeatInterval),
		},
		{
			"source_max_age", s.SourceMaxAge < s.HeartbeatInterval,
			fmt.Sprintf("is %s, less than heartbeat_interval (%s): the writer could not beat", s.SourceMaxAge, s.HeartbeatInterval),
		},
		{
			"file_poll", 2*s.FilePoll > s.SourceMaxAge,
			fmt.Sprintf("is %s, more than half of source_max_age (%s): one failed read would close the gate", s.FilePoll, s.SourceMaxAge),
		},
		{
			"label_relist", 2*s.LabelRelist > s.SourceMaxAge,
			fmt.Sprintf("is %s, more than half of source_max_age (%s): one failed list would close the gate", s.LabelRelist, s.SourceMaxAge),
		},
		{
			"file_failure_grace", s.FileFailureGrace < s.FilePoll,
			fmt.Sprintf("is %s, less than file_poll (%s): no second read could end it", s.FileFailureGrace, s.FilePoll),
		},
		{
			"gather_additions", s.GatherAdditions >= s.HeartbeatInterval && s.HeartbeatInterval > 0,
			fmt.Sprintf("is %s, not less than heartbeat_interval (%s)", s.GatherAdditions, s.HeartbeatInterval),
		},
		{
			"stop_grace", s.StopGrace > s.MaxStaleness,
			fmt.Sprintf("is %s, more than max_staleness (%s): readers have closed by then", s.StopGrace, s.MaxStaleness),
		},
	} {
		if r.broken {
			report(r.key, r.why)
		}
	}
}

// checkSettings is Validate for constructors, whose callers should have validated before.
func checkSettings(s Settings) error {
	var problems []string
	s.Validate(func(key, problem string) { problems = append(problems, key+" "+problem) })
	if len(problems) > 0 {
		return fmt.Errorf("allowlist settings: %s", strings.Join(problems, "; "))
	}
	return nil
}
