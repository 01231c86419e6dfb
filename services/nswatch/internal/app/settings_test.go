package app_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/labelsource"
)

// TestContradictionsAreReported: config check knows every rule that needs no file.
func TestContradictionsAreReported(t *testing.T) {
	const label = "operator_namespace_label = \"openshell.ai/workspace=true\"\n"
	const own = "http_address = \"127.0.0.1:0\"\n"
	for name, tc := range map[string]struct {
		replace []string
		want    string // in the only line; none: the settings are valid
	}{
		"sound":                   {nil, ""},
		"file":                    {[]string{label, "operator_namespace_file = \"/etc/namespaces.json\"\n"}, ""},
		"another mode":            {[]string{`"operator"`, `"shared"`}, "workspace_mode"},
		"both sources":            {[]string{label, label + "operator_namespace_file = \"/etc/namespaces.json\"\n"}, "both are set"},
		"no source":               {[]string{label, ""}, "neither is set"},
		"selector does not parse": {[]string{"openshell.ai/workspace=true", "a=(b"}, "operator_namespace_label"},
		"selects everything":      {[]string{"openshell.ai/workspace=true", "!a"}, "operator_namespace_label"},
		"selector is too long":    {[]string{"openshell.ai/workspace=true", strings.Repeat("a=b,", 1100) + "a=b"}, "has 4403 bytes"},
		"path is relative":        {[]string{label, "operator_namespace_file = \"namespaces.json\"\n"}, "must be an absolute path"},
		"path is of two lines":    {[]string{label, "operator_namespace_file = \"/etc/a\\nb\"\n"}, "one line"},
		"path is too long":        {[]string{label, "operator_namespace_file = \"/" + strings.Repeat("d/", 3000) + "\"\n"}, "has 6001 bytes"},
		"selects one by its name": {[]string{"openshell.ai/workspace=true", "kubernetes.io/metadata.name=team"}, ""},
		"no signing key":          {[]string{"signing_key_file", "lease_name = \"l\" #"}, "portcullis.nswatch.signing_key_file"},
		"signing key is relative": {[]string{"signing_key_file = \"/", "signing_key_file = \""}, "signing_key_file"},
		"no public keys":          {[]string{"public_keys_file", "stop_grace = \"1s\" #"}, "portcullis.allowlist.public_keys_file"},
		"no NATS":                 {[]string{"urls", "ca_file = \"/ca\" #"}, "portcullis.nats"},
		"Lease's name is none":    {[]string{own, own + "lease_name = \"A_B\"\n"}, "portcullis.nswatch.lease_name"},
		"Lease without margin":    {[]string{own, own + "renew_deadline = \"15s\"\nshutdown_grace = \"1m\"\n"}, "portcullis.nswatch.renew_deadline"},
		"stop cannot end":         {[]string{own, own + "lease_duration = \"15s\"\nrenew_deadline = \"12s\"\n"}, "half of it, 6s"},
		"stop waits too long":     {[]string{"public_keys_file", "stop_grace = \"6s\"\npublic_keys_file"}, "portcullis.allowlist.stop_grace"},
		"pings outlast the Lease": {[]string{"[portcullis.nats]", "[portcullis.kubernetes]\nping_interval = \"5s\"\n[portcullis.nats]"}, "portcullis.kubernetes.ping_interval"},
		"ping waits too long":     {[]string{"[portcullis.nats]", "[portcullis.kubernetes]\nping_timeout = \"4s\"\n[portcullis.nats]"}, "portcullis.kubernetes.ping_interval"},
		"Lease is too short":      {[]string{own, own + "renew_deadline = \"5s\"\n"}, "portcullis.kubernetes.ping_interval"},
		"pings are quicker":       {[]string{own, own + "renew_deadline = \"5001ms\"\n"}, ""},
		"unknown key":             {[]string{own, own + "signing_kei_file = \"/k\"\n"}, "signing_key_file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, "gateway.toml", operator("/keys/private", "/keys/public", tc.replace...))
			got := program.Run(t.Context(), "config", "check", "--config", file)
			if tc.want == "" {
				if got.Code != 0 || !strings.Contains(got.Stdout, "\nlease_duration = '10s'") {
					t.Errorf("%+v", got)
				}
				return
			}
			if got.Code == 0 || strings.Count(got.Stderr, "\n") != 1 || !strings.Contains(got.Stderr, tc.want) {
				t.Errorf("got %+v, want one line with %q", got, tc.want)
			}
		})
	}
}

// TestGatewayIDsOfOperatorMode: what cannot name keys or a Lease is refused before anything starts.
func TestGatewayIDsOfOperatorMode(t *testing.T) {
	for id, valid := range map[string]bool{"team.blue": true, "Team_Blue": true, "a..b": false, "": false, "a b": false} {
		file := write(t, "gateway.toml", operator("/keys/private", "/keys/public", `"blue"`, `"`+id+`"`))
		if got := program.Run(t.Context(), "config", "check", "--config", file); (got.Code == 0) != valid {
			t.Errorf("%q: %+v", id, got)
		}
	}
}

// TestSelectorsAreJudgedAsAtTheStart: what the label source refuses, config check refuses too, in one line.
func TestSelectorsAreJudgedAsAtTheStart(t *testing.T) {
	for _, selector := range []string{
		"", "  ", "a=b=c", "a in (b", "a!=b", "a notin (b)", "!a", "a!=b,!c", "kubernetes.io/metadata.name", "kubernetes.io/metadata.name!=x",
		"kubernetes.io/metadata.name,!a", strings.Repeat("a=b,", 1100) + "a=b",
	} {
		if labelsource.CheckSelector(selector) == nil {
			t.Errorf("the label source takes %q", selector)
		}
		file := write(t, "gateway.toml", operator("/keys/private", "/keys/public", "openshell.ai/workspace=true", selector))
		got := program.Run(t.Context(), "config", "check", "--config", file)
		if got.Code == 0 || strings.Count(got.Stderr, "\n") != 1 || !strings.Contains(got.Stderr, "operator_namespace_label") {
			t.Errorf("%.40q: %+v", selector, got)
		}
	}
}
