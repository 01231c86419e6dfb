package request

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxQuantity is longer than any quantity that is meant.
const maxQuantity = 32

// quantityRule has at most two digits of exponent: reading a number costs as many digits as it has written out.
var quantityRule = regexp.MustCompile(`^[0-9]{1,19}(\.[0-9]{1,9})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

// The greatest quantities. They are beyond any machine, and far below where Kubernetes counts over.
var (
	maxCPU      = resource.MustParse("1M")
	maxBytes    = resource.MustParse("1Ei")
	maxExtended = resource.MustParse("1G")
)

const limitOfZero = "must be greater than 0: a limit of 0 is no limit"

// quantity reads one. The problem does not show the text.
func quantity(kind corev1.ResourceName, text string) (resource.Quantity, string) {
	if len(text) > maxQuantity || !quantityRule.MatchString(text) {
		return resource.Quantity{}, "must be a Kubernetes quantity such as 500m, 2 or 4Gi, of at most 32 characters and not negative"
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, "must be a Kubernetes quantity such as 500m, 2 or 4Gi"
	}
	greatest := maxBytes
	switch {
	case kind == corev1.ResourceCPU:
		greatest = maxCPU
	case extended(kind):
		greatest = maxExtended
	}
	if q.Cmp(greatest) > 0 {
		return resource.Quantity{}, "must be at most " + greatest.String()
	}
	if whole(kind) && q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) != 0 {
		return resource.Quantity{}, "must be a whole number"
	}
	return q, ""
}

const hugePages = corev1.ResourceHugePagesPrefix

// extended says that the kind is not Kubernetes' own (contract 11.5).
func extended(kind corev1.ResourceName) bool { return strings.Contains(string(kind), "/") }

// whole says that the kind cannot be had in part or beyond its request.
func whole(kind corev1.ResourceName) bool {
	return extended(kind) || strings.HasPrefix(string(kind), hugePages)
}

// resourceName says why a container cannot ask for the kind. The key itself is in the path.
func resourceName(kind corev1.ResourceName) string {
	const native = "is no resource that a container can ask for: cpu, memory, ephemeral-storage, hugepages-<size>, or an extended one with a domain"
	if size, found := strings.CutPrefix(string(kind), hugePages); found {
		if q, problem := quantity(corev1.ResourceMemory, size); problem != "" || q.IsZero() {
			return native
		}
		return ""
	}
	switch kind {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return ""
	}
	domain, _, found := strings.Cut(string(kind), "/")
	switch {
	case !found, len(validation.IsQualifiedName(string(kind))) > 0, len(validation.IsQualifiedName("requests."+string(kind))) > 0:
		return native
	case strings.HasPrefix(domain, "requests."), domain == "kubernetes.io", strings.HasSuffix(domain, ".kubernetes.io"):
		return native
	}
	return ""
}
