package material_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

var cases = []struct {
	name string
	do   func(t *testing.T, f *material.Facts)
}{
	{"ipv4", func(*testing.T, *material.Facts) {}},
	{"ipv6", func(_ *testing.T, f *material.Facts) { f.ClusterIP, f.BoundaryPort = "fd00:0:0:0:0:0:0:A1", 6443 }},
	{"host-gateway", func(_ *testing.T, f *material.Facts) { f.HostGatewayIP = "192.0.2.1" }},
	{"host-gateway-ipv6", func(_ *testing.T, f *material.Facts) { f.HostGatewayIP = "2001:DB8::0001" }},
	{"child-env", func(_ *testing.T, f *material.Facts) {
		f.ChildEnv = map[string]string{
			"Z": "", "HTML": `<a href="x">&amp;</a>`, "GRÜSSE": "schöne Grüße, 世界, \U0001f512", "LINES": "a\nb\tc\\d\re\x01\x7f",
			"SEPARATORS": "a\u2028b\u2029c", "A b": "x=y",
		}
	}},
	{"upper-case-id", func(_ *testing.T, f *material.Facts) { f.SandboxID = "Box-1" }},
	{"greatest-numbers", func(t *testing.T, f *material.Facts) {
		f.WorkloadUID, f.WorkloadGID, f.BoundaryPort = 4294967294, 1, 65535
		s := strings.Replace(supervisor, `"session_rotation":1,"auth_epoch":7`, `"session_rotation":18446744073709551615,"auth_epoch":9007199254740993`, 1)
		f.Bundle = bundle(t, s)
	}},
}

func TestGoldenConfigurations(t *testing.T) {
	stored := []string{"files.txt"}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := valid(t)
			c.do(t, f)
			m := produce(t, f, fixed(1))
			golden(t, c.name+".boundary.json", string(m.Sandbox[material.FileBoundary].Expose()))
			golden(t, c.name+".descriptor.json", string(m.Supervisor[material.FileDescriptor].Expose()))
		})
		stored = append(stored, c.name+".boundary.json", c.name+".descriptor.json")
	}
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() && !slices.Contains(stored, e.Name()) { // what a fuzzer finds is in a directory
			t.Errorf("nothing writes testdata/%s", e.Name())
		}
	}
}

// All files, with everything optional, from fixed randomness.
func TestGoldenFiles(t *testing.T) {
	f := valid(t)
	ca, leaf, key := foreignCA(t)
	f.UpstreamProxyCA, f.ClientCA, f.ClientCertificate, f.ClientKey = append(slices.Clone(ca), ca...), ca, leaf, secret.New(key)
	m := produce(t, f, fixed(2))
	var b strings.Builder
	for _, s := range []struct {
		title string
		files map[string]string
	}{{"sandbox", texts(m.Sandbox)}, {"supervisor", texts(m.Supervisor)}} {
		for _, name := range slices.Sorted(maps.Keys(s.files)) {
			text := s.files[name]
			if strings.Contains(text, "PRIVATE KEY") {
				text = fmt.Sprintf("a key with SHA-256 %x", sha256.Sum256([]byte(text))) // no key in the repository
			}
			b.WriteString("== " + s.title + " " + name + "\n" + text + "\n")
		}
	}
	golden(t, "files.txt", b.String())
	if string(m.Supervisor[material.FileAuth].Expose()) != supervisor {
		t.Error("auth.json is not the member supervisor")
	}
}

// Which files there are, and no other.
func TestFileNames(t *testing.T) {
	ca, leaf, key := foreignCA(t)
	always := []string{"auth.json", "proxy-ca.crt", "proxy-ca.key", "runtime-descriptor.json"}
	for _, c := range []struct {
		name string
		do   func(f *material.Facts)
		more []string
	}{
		{"bare", func(*material.Facts) {}, nil},
		{"upstream proxy", func(f *material.Facts) { f.UpstreamProxyCA = ca }, []string{"upstream-proxy-ca.pem"}},
		{"client CA", func(f *material.Facts) { f.ClientCA = ca }, []string{"client-ca.crt"}},
		{
			"client certificate",
			func(f *material.Facts) { f.ClientCA, f.ClientCertificate, f.ClientKey = ca, leaf, secret.New(key) },
			[]string{"client-ca.crt", "client-tls.crt", "client-tls.key"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := valid(t)
			c.do(f)
			m := produce(t, f, fixed(1))
			if got := slices.Sorted(maps.Keys(m.Sandbox)); !slices.Equal(got, []string{"boundary.json", "tls.crt", "tls.key"}) {
				t.Errorf("sandbox has %v", got)
			}
			want := slices.Sorted(slices.Values(append(slices.Clone(always), c.more...)))
			if got := slices.Sorted(maps.Keys(m.Supervisor)); !slices.Equal(got, want) {
				t.Errorf("supervisor has %v, want %v", got, want)
			}
			for name, text := range texts(m.Supervisor) {
				if text == "" {
					t.Errorf("%s is empty", name)
				}
			}
		})
	}
}

// The names of contract 13.3 and 13.4, written here once more: both binaries refuse any other.
func TestFieldNames(t *testing.T) {
	const (
		workload = "kubernetes.workload_pod_uid"
		claims   = "kubernetes.egress_policy_resource_version kubernetes.egress_policy_uid kubernetes.namespace_uid kubernetes.sandbox_resource_uid " +
			"kubernetes.supervisor_pod_uid " + workload
		fence    = "established evidence_digest generation"
		identity = "gid resource_digest source supplementary_gids uid"
	)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := valid(t)
			c.do(t, f)
			m := produce(t, f, fixed(1))
			for _, w := range []struct {
				text  secret.Value
				names map[string]string
			}{
				{m.Sandbox[material.FileBoundary], map[string]string{
					"": "auth_epoch boundary_id child_env gateway_id generation listener outer_fence resource_claim_files resource_claims " +
						"session_id session_rotation verification_keys workload_identity",
					"verification_keys": "key_id public_key_pem", "listener": "address kind tls", "listener.tls": "certificate_chain_path private_key_path",
					"resource_claims": claims, "resource_claim_files": workload, "workload_identity": identity, "outer_fence": fence,
				}},
				{m.Supervisor[material.FileDescriptor], map[string]string{
					"":          "boundary_id generation host_gateway_ip outer_fence resource_claims session_id tls transport workload_identity",
					"transport": "addresses authority kind", "tls": "server_name trust_anchor_pem",
					"resource_claims": claims, "workload_identity": identity, "outer_fence": fence,
				}},
			} {
				var document any
				if err := json.Unmarshal(w.text.Expose(), &document); err != nil {
					t.Fatal(err)
				}
				for path, want := range w.names {
					if got := strings.Join(namesAt(t, document, path), " "); got != want {
						t.Errorf("%q has %s, want %s", path, got, want)
					}
				}
			}
		})
	}
}

// namesAt are the sorted names of the object at a path; of the first element where there is an array.
func namesAt(t *testing.T, document any, path string) []string {
	t.Helper()
	for _, step := range strings.FieldsFunc(path, func(c rune) bool { return c == '.' }) {
		document = document.(map[string]any)[step]
		if list, ok := document.([]any); ok {
			document = list[0]
		}
	}
	object, ok := document.(map[string]any)
	if !ok {
		t.Fatalf("%q is no object", path)
	}
	return slices.Sorted(maps.Keys(object))
}

// What JSON carries is what the facts say, whatever the characters.
func TestChildEnvSurvives(t *testing.T) {
	for _, c := range cases {
		f := valid(t)
		c.do(t, f)
		text := produce(t, f, fixed(1)).Sandbox[material.FileBoundary].Expose()
		var got struct {
			Env map[string]string `json:"child_env"`
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if got.Env == nil || !maps.Equal(got.Env, f.ChildEnv) {
			t.Errorf("%s: got %q, want %q", c.name, got.Env, f.ChildEnv)
		}
		if strings.ContainsAny(string(text), "\n\r\t") || strings.Contains(string(text), `\u003c`) {
			t.Errorf("%s: not compact, or escaped more than JSON demands: %s", c.name, text)
		}
	}
}
