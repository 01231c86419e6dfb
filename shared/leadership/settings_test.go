package leadership_test

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
)

func TestSettings(t *testing.T) {
	d := func(d time.Duration) driverconf.Duration { return driverconf.Duration(d) }
	for name, tc := range map[string]struct {
		change func(*leadership.Settings)
		want   string // key and part of the problem; none: it is valid
	}{
		"defaults":               {func(*leadership.Settings) {}, ""},
		"name and namespace":     {func(c *leadership.Settings) { c.LeaseName, c.LeaseNamespace = "a.b", "mesh" }, ""},
		"name is none":           {func(c *leadership.Settings) { c.LeaseName = "A_b" }, "lease_name"},
		"namespace is none":      {func(c *leadership.Settings) { c.LeaseNamespace = "a.b" }, "lease_namespace"},
		"lease of zero":          {func(c *leadership.Settings) { c.LeaseDuration, c.RenewDeadline = 0, -1 }, "lease_duration is 0s"},
		"lease of half a second": {func(c *leadership.Settings) { c.LeaseDuration = d(10500 * time.Millisecond) }, "whole seconds"},
		"lease without end":      {func(c *leadership.Settings) { c.LeaseDuration = d(time.Hour) }, "lease_duration is 1h"},
		"no margin":              {func(c *leadership.Settings) { c.RenewDeadline = c.LeaseDuration }, "renew_deadline is 10s, not less"},
		"renewal without time": {func(c *leadership.Settings) {
			c.RenewDeadline, c.RetryPeriod = d(time.Millisecond), d(20*time.Millisecond)
		}, "renew_deadline is 1ms"},
		"renewals without pause":   {func(c *leadership.Settings) { c.RetryPeriod = 0 }, "retry_period is 0s"},
		"room for one try only":    {func(c *leadership.Settings) { c.RetryPeriod = d(4 * time.Second) }, "retry_period is 4s, more than a third"},
		"times of less than none":  {func(c *leadership.Settings) { c.RetryPeriod = d(-time.Second) }, "retry_period is -1s"},
		"a name that is very long": {func(c *leadership.Settings) { c.LeaseName = strings.Repeat("a", 254) }, "lease_name"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := leadership.DefaultSettings()
			tc.change(&cfg)
			var got []string
			cfg.Validate(func(key, problem string) { got = append(got, key+" "+problem) })
			all := strings.Join(got, "\n")
			if (tc.want == "") != (len(got) == 0) || !strings.Contains(all, tc.want) {
				t.Errorf("got %q, want %q", all, tc.want)
			}
			cfg.LeaseName, cfg.LeaseNamespace = cmp.Or(cfg.LeaseName, "a"), cmp.Or(cfg.LeaseNamespace, "b")
			s := newAPIServer(t)
			if _, err := leadership.New(cfg, "nswatch", "me", s.client("me"), leadNothing, zerolog.Nop(), prometheus.NewRegistry()); (err == nil) != (tc.want == "") {
				t.Errorf("New says %v", err)
			}
		})
	}
}

func leadNothing(context.Context, <-chan struct{}) error { return nil }

func TestNewNeedsAPlace(t *testing.T) {
	_, err := leadership.New(leadership.DefaultSettings(), "nswatch", "me", newAPIServer(t).client("me"), leadNothing, zerolog.Nop(), prometheus.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "no name") || !strings.Contains(err.Error(), "no namespace") {
		t.Errorf("got %v", err)
	}
}

// TestLeaseNames: every gateway id gives a valid name, and no two the same.
func TestLeaseNames(t *testing.T) {
	seen := map[string]string{}
	for id, want := range map[string]string{
		"blue": "portcullis-nswatch-blue", "team.blue": "portcullis-nswatch-team.blue",
		"Blue": "portcullis-nswatch-blue-", "BLUE": "portcullis-nswatch-blue-", "team_blue": "portcullis-nswatch-team-blue-",
		"a.-b": "portcullis-nswatch-a--b-", "a-b": "portcullis-nswatch-a-b", "a_b": "portcullis-nswatch-a-b-",
		strings.Repeat("A", 63): "portcullis-nswatch-aaa",
	} {
		name := leadership.DefaultLeaseName("nswatch", id)
		if !strings.HasPrefix(name, want) || len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Errorf("%q gives %q", id, name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q share %q", id, other, name)
		}
		seen[name] = id
	}
}

// TestDaemons: two daemons of one gateway have a Lease and metrics each, also in one registry.
func TestDaemons(t *testing.T) {
	s, reg := newAPIServer(t), prometheus.NewRegistry()
	for _, daemon := range []string{"nswatch", "supervisorctl"} {
		if got, want := leadership.DefaultLeaseName(daemon, "blue"), "portcullis-"+daemon+"-blue"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if _, err := leadership.New(roomy(), daemon, "me", s.client("me"), leadNothing, zerolog.Nop(), reg); err != nil {
			t.Error(err)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	want := []string{
		"portcullis_nswatch_leading", "portcullis_nswatch_lease_errors_total", "portcullis_nswatch_lease_term_ends_total", "portcullis_nswatch_lease_terms_total",
		"portcullis_supervisorctl_leading", "portcullis_supervisorctl_lease_errors_total", "portcullis_supervisorctl_lease_term_ends_total", "portcullis_supervisorctl_lease_terms_total",
	}
	if !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
	for _, daemon := range []string{"", "Nswatch", "a-b", "a.b", "1a", strings.Repeat("a", 33)} {
		if _, err := leadership.New(roomy(), daemon, "me", s.client("me"), leadNothing, zerolog.Nop(), prometheus.NewRegistry()); err == nil || !strings.Contains(err.Error(), "daemon's name") {
			t.Errorf("%q: %v", daemon, err)
		}
	}
}

func TestIdentity(t *testing.T) {
	writer := regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`) // what the allowlist's records take
	for pod, want := range map[string]string{
		"nswatch-7f-abc": "nswatch-7f-abc-0102030405", "host.example": "host.example-0102030405",
		"": "nswatch-0102030405", "b\nd höst": "b-d-h-st-0102030405", strings.Repeat("p", 253): strings.Repeat("p", 100) + "-0102030405",
	} {
		got, err := leadership.NewIdentity("nswatch", pod, strings.NewReader("\x01\x02\x03\x04\x05\x06"))
		if err != nil || got != want || !writer.MatchString(got) {
			t.Errorf("%q gives %q, %v", pod, got, err)
		}
	}
	if _, err := leadership.NewIdentity("nswatch", "p", iotest.ErrReader(errors.New("no entropy"))); err == nil || !strings.Contains(err.Error(), "no entropy") {
		t.Errorf("got %v", err)
	}
}
