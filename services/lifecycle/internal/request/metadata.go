package request

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	maxLabels      = 64
	maxAnnotations = 64
	// maxAnnotationBytes is a quarter of what the API server takes on one object.
	maxAnnotationBytes = 64 << 10
	maxSelectors       = 64
)

// ownDomains are those of the driver, of its former keys, and of the Agent Sandbox controller (contract 4.3, 4.4, 8.4). What
// stands below them is theirs too.
var ownDomains = []string{"openshell.ai", "openshell.io", "agents.x-k8s.io"}

// platformKeys give a Pod what its spec does not say: further networks (admission refuses them after the fact), devices, the
// container runtime's own switches, and profiles from before there were fields for them.
var platformKeys = []string{
	"k8s.v1.cni.cncf.io/", "v1.multus-cni.io/", "cdi.k8s.io/", "io.kubernetes.cri-o.",
	"container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/",
}

// reservedKey says whose a key is; empty for the caller's own.
func reservedKey(key string) string {
	key = strings.ToLower(key)
	if domain, _, found := strings.Cut(key, "/"); found {
		for _, own := range ownDomains {
			if domain == own || strings.HasSuffix(domain, "."+own) {
				return "keys below " + own + " are the driver's and the controller's own"
			}
		}
	}
	if key == workspace.AnnotationTraceContext {
		return "it is the driver's own"
	}
	for _, prefix := range platformKeys {
		if strings.HasPrefix(key, prefix) {
			return "keys with " + prefix + " change a Pod beyond its spec"
		}
	}
	return ""
}

// labels reads labels or, without the rule on whose they are, a node selector.
func (c *reading) labels(path string, in map[string]string) map[string]string {
	if len(in) > maxLabels {
		c.invalid(path, "has %d entries, and at most %d are allowed", len(in), maxLabels)
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		switch whose := reservedKey(key); {
		case whose != "":
			c.reserved(at(path, key), "is reserved: %s", whose)
		default:
			c.label(at(path, key), key, in[key])
		}
	}
	return maps.Clone(in)
}

func (c *reading) label(path, key, value string) {
	if len(validation.IsQualifiedName(key)) > 0 {
		c.invalid(path, "is no label key: a name of at most 63 letters, digits, '-', '_' and '.', perhaps behind a DNS name and '/'")
	}
	if len(validation.IsValidLabelValue(value)) > 0 {
		c.invalid(path, "has a value that no label can have: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends")
	}
}

func (c *reading) annotations(path string, in map[string]string) map[string]string {
	if len(in) > maxAnnotations {
		c.invalid(path, "has %d entries, and at most %d are allowed", len(in), maxAnnotations)
		return nil
	}
	bytes := 0
	for _, key := range slices.Sorted(maps.Keys(in)) {
		bytes += len(key) + len(in[key])
		switch whose := reservedKey(key); {
		case whose != "":
			c.reserved(at(path, key), "is reserved: %s", whose)
		case len(validation.IsQualifiedName(strings.ToLower(key))) > 0:
			c.invalid(at(path, key), "is no annotation key: a name of at most 63 letters, digits, '-', '_' and '.', perhaps behind a DNS name and '/'")
		case !utf8.ValidString(in[key]) || strings.ContainsRune(in[key], 0):
			c.invalid(at(path, key), "has a value that is not UTF-8 text without NUL")
		}
	}
	if bytes > maxAnnotationBytes {
		c.invalid(path, "has %d bytes, and at most %d are allowed", bytes, maxAnnotationBytes)
	}
	return in
}
