package material_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
)

// FuzzFacts: texts that others choose are refused by name or come out as they went in, and both files stay strict JSON.
func FuzzFacts(f *testing.F) {
	f.Add("PATH", "/bin", "uid-1", "10.96.0.1", "")
	f.Add("A", "\u2028<&>\"\\\x00", "uid 1", "fd00::1", "192.0.2.1")
	f.Add("OPENSHELL_X", "\xff", "\u00a0", "::ffff:1.2.3.4", "fe80::1%1")
	base := valid(f)
	f.Fuzz(func(t *testing.T, name, value, uid, cluster, host string) {
		facts := *base
		facts.ChildEnv, facts.WorkloadPodUID, facts.ClusterIP, facts.HostGatewayIP = map[string]string{name: value}, uid, cluster, host
		m, err := material.Make(&facts, fixed(1))
		if err != nil {
			var e *material.Error
			if m != nil || !errors.As(err, &e) {
				t.Fatalf("refused without a field: %v", err)
			}
			return
		}
		var b struct {
			Env map[string]string `json:"child_env"`
		}
		var d struct {
			Claims    map[string]string `json:"resource_claims"`
			Host      *string           `json:"host_gateway_ip"`
			Transport struct {
				Addresses []string `json:"addresses"`
			} `json:"transport"`
		}
		read := func(text []byte, into any) {
			if err := json.Unmarshal(text, into); err != nil || bytes.ContainsAny(text, "\n\r\t") {
				t.Fatalf("%v: %s", err, text)
			}
		}
		read(m.Sandbox[material.FileBoundary].Expose(), &b)
		read(m.Supervisor[material.FileDescriptor].Expose(), &d)
		if len(b.Env) != 1 || b.Env[name] != value || d.Claims["kubernetes.workload_pod_uid"] != uid || (d.Host == nil) != (host == "") ||
			len(d.Transport.Addresses) != 1 {
			t.Fatalf("changed: %q %+v", b.Env, d)
		}
	})
}
