package request

import (
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// scheduling merges by the rules of contract 11.4: a key that is there stays, tolerations are appended, and of the runtime classes
// the platform's comes before the caller's and the default.
func (c *reading) scheduling(platform, caller config) {
	s := &c.spec
	s.Annotations = platform.annotations
	s.NodeSelector = map[string]string{}
	maps.Copy(s.NodeSelector, caller.nodeSelector)
	maps.Copy(s.NodeSelector, platform.nodeSelector)
	s.Tolerations = slices.Concat(platform.tolerations, caller.tolerations)
	s.PriorityClass = caller.priorityClass
	switch {
	case platform.runtimeClass != "":
		s.RuntimeClass = platform.runtimeClass
	case caller.runtimeClass != "":
		s.RuntimeClass = caller.runtimeClass
	default:
		s.RuntimeClass = c.reader.settings.DefaultRuntimeClassName
	}
}

func (c *reading) selector(path string, v *structpb.Value) map[string]string {
	in := c.texts(path, v)
	if len(in) > maxSelectors {
		c.invalid(path, "has %d entries, and at most %d are allowed", len(in), maxSelectors)
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		c.label(at(path, key), key, in[key])
	}
	return in
}

func (c *reading) class(path string, v *structpb.Value) string {
	return c.objectName(path, c.text(path, v))
}

// objectName is the name, and empty when no object can have it.
func (c *reading) objectName(path, name string) string {
	if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		c.invalid(path, "must be the name of an object: at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at both ends")
		return ""
	}
	return name
}

// systemPriority begins the names of the classes that Kubernetes keeps for itself; a Pod with one evicts any other.
const systemPriority = "system-"

func (c *reading) priority(path string, v *structpb.Value) string {
	name := c.class(path, v)
	if strings.HasPrefix(name, systemPriority) {
		c.reserved(path, "names a class of the system, which no sandbox may have")
		return ""
	}
	return name
}

// tolerations are core toleration objects, with the names of that API.
func (c *reading) tolerations(path string, v *structpb.Value) []corev1.Toleration {
	var out []corev1.Toleration
	for i, element := range c.list(path, v, maxTolerations) {
		at := item(path, i)
		members := c.object(at, element)
		c.known(at, members, "key", "operator", "value", "effect", "tolerationSeconds")
		t := corev1.Toleration{
			Key: c.text(at+".key", members["key"]), Operator: corev1.TolerationOperator(c.text(at+".operator", members["operator"])),
			Value: c.text(at+".value", members["value"]), Effect: corev1.TaintEffect(c.text(at+".effect", members["effect"])),
			TolerationSeconds: c.seconds(at+".tolerationSeconds", members["tolerationSeconds"]),
		}
		c.toleration(at, t)
		out = append(out, t)
	}
	return out
}

func (c *reading) toleration(path string, t corev1.Toleration) {
	exists := t.Operator == corev1.TolerationOpExists
	if t.Key != "" && len(validation.IsQualifiedName(t.Key)) > 0 {
		c.invalid(path+".key", "is no key of a taint")
	}
	if t.Key == "" && !exists {
		c.invalid(path+".key", "must be set, unless operator is Exists")
	}
	if !exists && t.Operator != "" && t.Operator != corev1.TolerationOpEqual {
		c.invalid(path+".operator", "must be Equal or Exists")
	}
	switch {
	case exists && t.Value != "":
		c.invalid(path+".value", "must be empty when operator is Exists")
	case len(validation.IsValidLabelValue(t.Value)) > 0:
		c.invalid(path+".value", "is no value of a taint")
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		c.invalid(path+".effect", "must be NoSchedule, PreferNoSchedule or NoExecute")
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		c.invalid(path+".tolerationSeconds", "may be set only when effect is NoExecute")
	}
}

// seconds reads a whole number that a float can hold exactly.
func (c *reading) seconds(path string, v *structpb.Value) *int64 {
	if v == nil || isNull(v) {
		return nil
	}
	const exact = 1 << 53
	n, ok := v.GetKind().(*structpb.Value_NumberValue)
	if !ok || n.NumberValue != math.Trunc(n.NumberValue) || math.Abs(n.NumberValue) > exact {
		c.invalid(path, "must be a whole number of seconds")
		return nil
	}
	return new(int64(n.NumberValue))
}
