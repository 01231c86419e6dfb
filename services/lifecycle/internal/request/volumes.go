package request

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxPath is the longest path that a caller may mount at or below.
const maxPath = 1024

// reservedVolumes are the driver's own names (contract 11.4).
var reservedVolumes = []string{
	"openshell-client-tls", "openshell-upstream-proxy-auth", "openshell-sa-token", "spiffe-workload-api", "openshell-runtime",
	"openshell-runtime-state", "openshell-sandbox-bootstrap", "openshell-pod-identity", "openshell-run", "workspace",
}

// reservedRoots are where nothing may be mounted, nor above, nor below: the driver's own (contract 11.4), in either spelling of
// /var/run, and the kernel's.
var reservedRoots = []string{
	"/.openshell", "/opt/openshell", "/etc/openshell", "/etc/openshell-tls", "/run/openshell", "/run/openshell-sidecar",
	"/run/netns", "/var/run/netns", "/var/run/openshell", "/run/secrets/openshell", "/var/run/secrets/openshell",
	"/proc", "/sys",
}

// ownMounts are where the driver mounts something itself, and the devices. Below them there may be others, at them and above not.
var ownMounts = []string{"/sandbox", "/run", "/var/run", "/mnt/openshell-workspace", "/dev"}

func (c *reading) volumes(caller config) {
	c.spec.Volumes, c.spec.Mounts = caller.volumes, caller.mounts
}

func (c *reading) callerVolumes(path string, v *structpb.Value, out *config) {
	seen := map[string]bool{}
	for i, element := range c.list(path, v, maxVolumes) {
		at := item(path, i)
		members := c.object(at, element)
		c.known(at, members, "name", "persistent_volume_claim")
		name := c.text(at+".name", members["name"])
		switch {
		case len(validation.IsDNS1123Label(name)) > 0:
			c.invalid(at+".name", "must be a DNS-1123 label: 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends")
		case slices.Contains(reservedVolumes, name):
			c.reserved(at+".name", "is the name of one of the driver's own volumes")
		case seen[name]:
			c.invalid(at+".name", "is the name of another volume too")
		}
		seen[name] = true
		at += ".persistent_volume_claim"
		if members["persistent_volume_claim"] == nil {
			c.invalid(at, "is missing: a volume can be nothing else")
			continue
		}
		claim := c.object(at, members["persistent_volume_claim"])
		c.known(at, claim, "claim_name", "read_only")
		out.volumes = append(out.volumes, Volume{
			Name: name, Claim: c.claimName(at+".claim_name", claim["claim_name"]), ReadOnly: c.flag(at+".read_only", claim["read_only"], true),
		})
	}
}

func (c *reading) claimName(path string, v *structpb.Value) string {
	switch {
	case v == nil:
		c.invalid(path, "is missing")
		return ""
	case isNull(v), v.GetStringValue() == "" && kindOf(v) == "a string":
		c.invalid(path, "must not be empty")
		return ""
	}
	return c.class(path, v)
}

// callerMounts are read after the volumes.
func (c *reading) callerMounts(path string, v *structpb.Value, out *config) {
	seen := map[string]bool{}
	for i, element := range c.list(path, v, maxMounts) {
		at := item(path, i)
		members := c.object(at, element)
		c.known(at, members, "name", "mount_path", "sub_path", "read_only")
		m := Mount{
			Volume: c.text(at+".name", members["name"]), Path: c.text(at+".mount_path", members["mount_path"]),
			SubPath: c.text(at+".sub_path", members["sub_path"]), ReadOnly: c.flag(at+".read_only", members["read_only"], true),
		}
		of := slices.IndexFunc(out.volumes, func(v Volume) bool { return v.Name == m.Volume })
		switch {
		case of < 0:
			c.invalid(at+".name", "is none of the volumes of driver_config.volumes")
		case out.volumes[of].ReadOnly && !m.ReadOnly:
			c.invalid(at+".read_only", "is false, and the volume is read-only: its own read_only must be false too")
		}
		c.mountPath(at+".mount_path", m.Path)
		if seen[m.Path] {
			c.invalid(at+".mount_path", "is that of another mount too")
		}
		seen[m.Path] = true
		if given := members["sub_path"]; given != nil && !isNull(given) {
			c.subPath(at+".sub_path", m.SubPath)
		}
		out.mounts = append(out.mounts, m)
	}
}

func (c *reading) mountPath(field, p string) {
	if !plainText(p) || !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.Contains(p, ":") {
		c.invalid(field, "must be an absolute path of at most %d bytes, not / itself, without '.', '..', ':', empty parts, control characters and spaces around it", maxPath)
		return
	}
	for _, root := range reservedRoots {
		if below(p, root) || below(root, p) {
			c.reserved(field, "overlaps with %s, which is reserved", root)
			return
		}
	}
	for _, root := range ownMounts {
		if below(root, p) {
			c.reserved(field, "would hide %s, where something is mounted already; a path below it is allowed", root)
			return
		}
	}
}

func (c *reading) subPath(field, p string) {
	if !plainText(p) || path.IsAbs(p) || slices.Contains(strings.Split(p, "/"), "..") {
		c.invalid(field, "must be a relative path of 1 to %d bytes, without '..', control characters and spaces around it", maxPath)
	}
}

func plainText(s string) bool {
	return s != "" && len(s) <= maxPath && utf8.ValidString(s) && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, unicode.IsControl)
}

// below reports that a is b or below it.
func below(a, b string) bool { return a == b || strings.HasPrefix(a, b+"/") }
