package app_test

import (
	"strings"
	"testing"
)

// TestSettings: config check knows every rule that needs no file, and names the key.
func TestSettings(t *testing.T) {
	s := newSite(t)
	for name, tc := range map[string]struct {
		replace []string
		want    string // in the only line; none: the settings are valid
	}{
		"sound":                     {nil, ""},
		"all of our own":            {[]string{"grpc_endpoint", "client_tls_secret_name = \"client-tls\"\ngrpc_endpoint", own, own + "telemetry_enabled = false\nstage_client_key = true\ncall_timeout = \"2m\"\nrequest_timeout = \"5s\"\nmax_concurrent = 10\nmax_concurrent_per_namespace = 10\n"}, ""},
		"call_timeout":              {[]string{own, own + "call_timeout = \"1s\"\n"}, "portcullis.supervisorctl.call_timeout"},
		"request_timeout":           {[]string{own, own + "request_timeout = \"1h\"\n"}, "portcullis.supervisorctl.request_timeout"},
		"max_concurrent":            {[]string{own, own + "max_concurrent = 1001\n"}, "portcullis.supervisorctl.max_concurrent"},
		"more for one than for all": {[]string{own, own + "max_concurrent_per_namespace = 65\n"}, "portcullis.supervisorctl.max_concurrent_per_namespace"},
		"Lease's name is none":      {[]string{own, own + "lease_name = \"A_B\"\n"}, "portcullis.supervisorctl.lease_name"},
		"Lease without margin":      {[]string{own, own + "renew_deadline = \"10s\"\n"}, "portcullis.supervisorctl.renew_deadline"},
		"loop":                      {[]string{own, own + "reconcile_workers = 0\n"}, "portcullis.supervisorctl.reconcile_workers"},
		"probe":                     {[]string{own, own + "probe_image = \"registry.example/supervisorctl:1\"\nfence_probe = \"require\"\nfence_probe_targets = [\"kubernetes\", \"192.0.2.1:443\"]\nfence_probe_interval = \"1h\"\n"}, ""},
		"probe without an image":    {[]string{own, own + "fence_probe = \"report\"\n"}, "portcullis.supervisorctl.probe_image"},
		"probe elsewhere":           {[]string{own, own + "probe_image = \"x\"\nfence_probe = \"report\"\nfence_probe_namespaces = [\"other\"]\n"}, "portcullis.supervisorctl.fence_probe_namespaces"},
		"listen_address":            {[]string{`listen_address = "127.0.0.1:0"`, `listen_address = "nowhere"`}, "portcullis.supervisorctl.listen_address"},
		"mesh":                      {[]string{"[portcullis.mesh]", "[portcullis.mesh]\nmax_message_bytes = 1"}, "portcullis.mesh.max_message_bytes"},
		"kubernetes":                {[]string{"[portcullis.kubernetes]", "[portcullis.kubernetes]\nqps = -1.0"}, "portcullis.kubernetes.qps"},
		"unknown key":               {[]string{own, own + "stage_client_kei = true\n"}, "stage_client_key"},
	} {
		t.Run(name, func(t *testing.T) {
			got := program.Run(t.Context(), "config", "check", "--config", s.settings(tc.replace...))
			if tc.want == "" {
				if got.Code != 0 || !strings.Contains(got.Stdout, "\nmax_concurrent = ") || !strings.Contains(got.Stdout, "\ntelemetry_enabled = ") {
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

// TestDefaults are those that the documentation of the settings states.
func TestDefaults(t *testing.T) {
	got := program.Run(t.Context(), "config", "check", "--config", newSite(t).settings())
	for _, want := range []string{
		"call_timeout = '4m0s'", "request_timeout = '15s'", "max_concurrent = 64", "max_concurrent_per_namespace = 16",
		"telemetry_enabled = true", "stage_client_key = false", "qps = 400", "burst = 800",
		"probe_image = ''", "probe_image_pull_policy = ''", "fence_probe = 'off'", "fence_probe_namespaces = []", "fence_probe_targets = ['kubernetes']",
		"fence_probe_interval = '0s'", "fence_probe_settle = '30s'", "fence_probe_timeout = '3m0s'",
	} {
		if !strings.Contains(got.Stdout, "\n"+want) {
			t.Errorf("%q is not in\n%s", want, got.Stdout)
		}
	}
}

// TestWhatNoCompanionCanBeMadeWithEndsTheStart, by the key's name.
func TestWhatNoCompanionCanBeMadeWithEndsTheStart(t *testing.T) {
	s := newSite(t)
	for name, tc := range map[string]struct {
		replace []string
		want    string
	}{
		"no endpoint":       {[]string{"grpc_endpoint", "default_image = \"x\" #"}, "grpc_endpoint"},
		"no CA bundle":      {[]string{"[openshell.drivers.kubernetes]\n", "[openshell.drivers.kubernetes]\nhttps_proxy = \"http://proxy.example:3128\"\nproxy_ca_bundle = \"/nonexistent/bundle\"\n"}, "/nonexistent/bundle"},
		"no cluster":        {[]string{"kubeconfig = ", "kubeconfig = \"/nonexistent/kubeconfig\" #"}, "/nonexistent/kubeconfig"},
		"nowhere to lead":   {[]string{"lease_namespace = \"mesh\"\n", ""}, "lease_namespace"},
		"authority is gone": {[]string{"ca_file = ", "ca_file = \"/nonexistent/ca\" #"}, "/nonexistent/ca"},
	} {
		t.Run(name, func(t *testing.T) {
			got := program.Run(t.Context(), "--config", s.settings(tc.replace...))
			if got.Code == 0 || !strings.Contains(got.Stderr, tc.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}
