package request_test

import (
	"path"
	"strings"
	"testing"
	"unicode"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func mounted(p string) func(*world) {
	return func(w *world) { w.in(mounts("data", p), "containers", "agent", "volume_mounts") }
}

func mount(member string, value any) func(*world) {
	return func(w *world) {
		m := map[string]any{"name": "data", "mount_path": "/data", member: value}
		w.in([]any{m}, "containers", "agent", "volume_mounts")
	}
}

func volume(member string, value any) func(*world) {
	return func(w *world) {
		v := map[string]any{"name": "data", "persistent_volume_claim": map[string]any{"claim_name": "c", "read_only": false}, member: value}
		w.in(mounts("data", "/data"), "containers", "agent", "volume_mounts")
		w.in([]any{v}, "volumes")
	}
}

const (
	atMount  = conf + ".containers.agent.volume_mounts[0]"
	atVolume = conf + ".volumes[0]"
)

func TestVolumesAndMounts(t *testing.T) {
	list := []breach{
		{"no name of a volume", volume("name", ""), invalid, atVolume + ".name: "},
		{"a name in capitals", volume("name", "Data"), invalid, atVolume + ".name: "},
		{"a claim by another name", volume("configMap", map[string]any{}), invalid, atVolume + `["configMap"]: `},
		{"no claim", volume("persistent_volume_claim", nil), invalid, atVolume + ".persistent_volume_claim: must be an object and is null"},
		{"a claim without a name", volume("persistent_volume_claim", map[string]any{}), invalid, atVolume + ".persistent_volume_claim.claim_name: is missing"},
		{"a claim with an empty name", volume("persistent_volume_claim", map[string]any{"claim_name": ""}), invalid, atVolume + ".persistent_volume_claim.claim_name: must not be empty"},
		{"a claim with a bad name", volume("persistent_volume_claim", map[string]any{"claim_name": "a/b"}), invalid, atVolume + ".persistent_volume_claim.claim_name: "},
		{"a claim with a namespace", volume("persistent_volume_claim", map[string]any{"claim_name": "a", "namespace": "b"}), invalid, atVolume + `.persistent_volume_claim["namespace"]: `},
		{"read-only by text", volume("persistent_volume_claim", map[string]any{"claim_name": "a", "read_only": "false"}), invalid, atVolume + ".persistent_volume_claim.read_only: "},
		{"two of a name", func(w *world) {
			v := map[string]any{"name": "data", "persistent_volume_claim": map[string]any{"claim_name": "c"}}
			w.in([]any{v, v}, "volumes")
			w.in([]any{}, "containers", "agent", "volume_mounts")
		}, invalid, conf + ".volumes[1].name: "},
		{"a mount of nothing", mount("name", "other"), invalid, atMount + ".name: "},
		{"a mount of the driver's", mount("name", "openshell-sandbox-bootstrap"), invalid, atMount + ".name: "},
		{"a writable mount of what is read-only", mount("read_only", false), invalid, atMount + ".read_only: "},
		{"two at one path", func(w *world) { w.in(mounts("data", "/a", "/a"), "containers", "agent", "volume_mounts") }, invalid, conf + ".containers.agent.volume_mounts[1].mount_path: "},
		{"propagation", mount("mount_propagation", "Bidirectional"), invalid, atMount + `["mount_propagation"]: `},
		{"a sub path upwards", mount("sub_path", "a/../../b"), invalid, atMount + ".sub_path: "},
		{"an absolute sub path", mount("sub_path", "/a"), invalid, atMount + ".sub_path: "},
		{"an empty sub path", mount("sub_path", ""), invalid, atMount + ".sub_path: "},
		{"a sub path with a NUL", mount("sub_path", "a\x00b"), invalid, atMount + ".sub_path: "},
		{"a sub path with a blank", mount("sub_path", " a"), invalid, atMount + ".sub_path: "},
		{"a sub path that is a number", mount("sub_path", 5.0), invalid, atMount + ".sub_path: must be a string"},
		{"many volumes", func(w *world) { w.in(make([]any, 33), "volumes") }, invalid, conf + ".volumes: "},
		{"many mounts", func(w *world) { w.in(make([]any, 65), "containers", "agent", "volume_mounts") }, invalid, conf + ".containers.agent.volume_mounts: "},
	}
	for _, name := range []string{
		"openshell-client-tls", "openshell-upstream-proxy-auth", "openshell-sa-token", "spiffe-workload-api", "openshell-runtime",
		"openshell-runtime-state", "openshell-sandbox-bootstrap", "openshell-pod-identity", "openshell-run", "workspace",
	} {
		list = append(list, breach{"volume " + name, volume("name", name), reserved, atVolume + ".name: is the name of one of the driver's"})
	}
	for _, p := range []string{
		"", "data", "./data", "/", "//", "/data/", "/a//b", "/a/./b", "/a/../b", "/..", "/a/..", " /a", "/a ", "/a\x00b", "/a\tb", "/a:b", "/" + strings.Repeat("a", 1024),
	} {
		list = append(list, breach{"mount at " + p, mounted(p), invalid, atMount + ".mount_path: must be an absolute path"})
	}
	for _, p := range []string{
		"/.openshell", "/.openshell/x", "/.openshell/runtime", "/opt", "/opt/openshell", "/opt/openshell/bin", "/etc", "/etc/openshell", "/etc/openshell-tls/x", "/run", "/run/openshell",
		"/run/openshell-sidecar", "/run/netns/x", "/var", "/var/run", "/var/run/netns", "/var/run/secrets", "/var/run/secrets/openshell", "/run/secrets", "/proc", "/proc/self", "/sys/fs",
		"/sandbox", "/mnt", "/mnt/openshell-workspace", "/dev",
	} {
		list = append(list, breach{"mount at " + p, mounted(p), reserved, atMount + ".mount_path: "})
	}
	for _, c := range list {
		w := base(t)
		c.change(w)
		sandbox, d := w.create(t)
		check(t, c, sandbox, d)
	}
	for _, p := range []string{
		"/data", "/sandbox/x", "/run/x", "/var/run/x", "/opt/x", "/etc/x", "/etc/openshell2", "/.openshell2", "/dev/shm", "/mnt/openshell-workspace/x", "/mnt/x", "/process", "/größe", "/a b", "/...",
	} {
		w := base(t)
		mounted(p)(w)
		if _, d := w.create(t); !d.Granted() {
			t.Errorf("mount at %s: %s", p, d.Explain())
		}
	}
}

// FuzzMounts: whatever path is accepted is plain, and neither hides nor enters what is not the caller's.
func FuzzMounts(f *testing.F) {
	for _, p := range []string{"/data", "/run/openshell", "/sandbox/../proc", "/a\u2028b", "/PROC", "/sandbox"} {
		f.Add(p, "a/b", true)
	}
	f.Fuzz(func(t *testing.T, p, sub string, readOnly bool) {
		w := base(t)
		v := map[string]any{"name": "data", "mount_path": strings.ToValidUTF8(p, ""), "sub_path": strings.ToValidUTF8(sub, ""), "read_only": readOnly}
		w.in([]any{v}, "containers", "agent", "volume_mounts")
		sandbox, d := w.create(t)
		if !d.Granted() {
			if d.Reason != verdict.RequestInvalid && d.Reason != verdict.RequestReserved {
				t.Fatal(d.Explain())
			}
			return
		}
		m := sandbox.Spec().Mounts[0]
		p, sub = strings.ToValidUTF8(p, ""), strings.ToValidUTF8(sub, "")
		if m.Path != p || m.SubPath != sub || m.ReadOnly != readOnly || !readOnly {
			t.Fatalf("%+v is not what was asked for", m)
		}
		if path.Clean("/"+sub) == "/" && strings.Contains(sub, "..") || strings.HasPrefix(path.Clean(sub), "..") {
			t.Fatalf("sub path %q leads out", sub)
		}
		if strings.ContainsFunc(m.Path+m.SubPath, unicode.IsControl) || len(m.Path) > 1024 {
			t.Fatalf("%q is no plain path", m.Path)
		}
		for _, root := range []string{"/.openshell", "/proc", "/sys", "/run/openshell", "/var/run/secrets/openshell"} {
			if rel := strings.TrimPrefix(path.Clean(m.Path)+"/", root+"/"); rel != path.Clean(m.Path)+"/" || strings.HasPrefix(root+"/", path.Clean(m.Path)+"/") {
				t.Fatalf("%q overlaps with %s", m.Path, root)
			}
		}
		for _, hidden := range []string{"/sandbox", "/run", "/var/run", "/dev"} {
			if strings.HasPrefix(hidden+"/", m.Path+"/") {
				t.Fatalf("%q hides %s", m.Path, hidden)
			}
		}
	})
}
