package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

func TestPlace(t *testing.T) {
	mount := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(mount, []byte("of-the-pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		set, mount string
		env        map[string]string
		namespace  string // none: an error
		refused    []string
	}{
		"setting and mount": {"set", mount, nil, "set", []string{"set", "of-the-pod", "kube-system"}},
		"mount":             {"", mount, nil, "of-the-pod", []string{"of-the-pod", "kube-system"}},
		"variable":          {"", mount, map[string]string{"POD_NAMESPACE": "of-env"}, "of-env", []string{"of-env"}},
		"setting alone":     {"set", "/nonexistent", nil, "set", []string{"set"}},
		"nothing":           {"", "/nonexistent", nil, "", nil},
		"empty mount":       {"", "/dev/null", map[string]string{"POD_NAMESPACE": ""}, "", nil},
		"no name":           {"", mount, map[string]string{"POD_NAMESPACE": "*"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := defaults()
			s.Own.LeaseNamespace = tc.set
			lookup := func(key string) (string, bool) { v, ok := tc.env[key]; return v, ok }
			got, err := findPlace(s, "blue", lookup, tc.mount)
			if (err == nil) != (tc.namespace != "") {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				return
			}
			if got.lease.LeaseNamespace != tc.namespace || got.lease.LeaseName != "portcullis-nswatch-blue" {
				t.Errorf("the Lease is %s/%s", got.lease.LeaseNamespace, got.lease.LeaseName)
			}
			for _, n := range tc.refused {
				if !got.refusals.Match(n) {
					t.Errorf("%s is not refused", n)
				}
			}
			if got.refusals.Match("team") {
				t.Error("team is refused")
			}
		})
	}
}

// TestRefusedNamespacesAdd: a list in the settings file takes nothing off what is always refused (rule W7).
func TestRefusedNamespacesAdd(t *testing.T) {
	for name, tc := range map[string]struct {
		line    string
		refused []string
	}{
		"none":   {"", nil},
		"empty":  {"refused_namespaces = []", nil},
		"custom": {`refused_namespaces = ["build-*", "audit"]`, []string{"build-1", "audit"}},
		"again":  {`refused_namespaces = ["kube-*"]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := defaults()
			text := "[portcullis.nswatch]\nlease_namespace = \"mesh\"\n[portcullis.nats]\nurls = [\"nats://127.0.0.1:4222\"]\n" +
				"[portcullis.allowlist]\npublic_keys_file = \"/keys\"\n" + tc.line + "\n"
			if _, err := driverconf.Load(driverconf.Source{Bytes: []byte(text), Sections: s.Sections()}); err != nil {
				t.Fatal(err)
			}
			got, err := findPlace(s, "blue", func(string) (string, bool) { return "", false }, "/nonexistent")
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range append(tc.refused, "kube-system", "kube-public", "mesh") {
				if !got.refusals.Match(n) {
					t.Errorf("%s is not refused", n)
				}
			}
			if got.refusals.Match("team") {
				t.Error("team is refused")
			}
		})
	}
}

func TestIdentitiesDiffer(t *testing.T) {
	lookup := func(key string) (string, bool) { return "pod-0", key == "POD_NAME" }
	s := defaults()
	s.Own.LeaseNamespace = "mesh"
	a, err := findPlace(s, "blue", lookup, "/nonexistent")
	if err != nil {
		t.Fatal(err)
	}
	b, err := findPlace(s, "blue", lookup, "/nonexistent")
	if err != nil || a.identity == b.identity || !strings.HasPrefix(a.identity, "pod-0-") {
		t.Errorf("%q and %q, %v", a.identity, b.identity, err)
	}
}
