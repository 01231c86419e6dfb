package conformance

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

const huge = 1 << 20

func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("k%d", i)] = "v"
	}
	return m
}

func hostileNames() []hostile {
	var all []hostile
	for name, id := range map[string]string{
		"none": "", "long": strings.Repeat("a", 64), "huge": strings.Repeat("a", huge), "path": "../x", "underscore": "a_b", "newline": "a\nb",
		"nul": "a\x00", "dash": "-a", "unicode": "\u0430bc", "comma": "a,b", "selector": "a)in(b",
	} {
		all = append(all, hostile{name: "id-" + name, path: "sandbox.id", change: func(s *computev1.DriverSandbox) { s.Id = id }})
	}
	for name, text := range map[string]string{
		"none": "", "capitals": "Box", "long": strings.Repeat("b", 64), "huge": strings.Repeat("b", huge), "path": "../box", "underscore": "a_b",
		"newline": "box\n", "dash": "box-", "dot": "a.b", "unicode": "b\u043ex", "percent": "%2e%2e",
	} {
		all = append(all, hostile{name: "name-" + name, path: "sandbox.name", change: func(s *computev1.DriverSandbox) { s.Name = text }})
	}
	for name, text := range map[string]string{"none": "", "path": "../kube-system", "capitals": "Team", "long": strings.Repeat("w", 64), "newline": "team\n"} {
		all = append(all, hostile{
			name: "workspace-" + name, path: "sandbox.workspace", codes: []codes.Code{codes.FailedPrecondition},
			change: func(s *computev1.DriverSandbox) { s.Workspace = text },
		})
	}
	return append(byName(all), hostile{
		name: "namespace", path: "sandbox.namespace", open: true, change: func(s *computev1.DriverSandbox) { s.Namespace = "kube-system" },
	})
}

func hostileSpecs() []hostile {
	spec := func(change func(*computev1.DriverSandboxSpec)) func(*computev1.DriverSandbox) {
		return func(s *computev1.DriverSandbox) { change(s.Spec) }
	}
	env := func(name, value string) func(*computev1.DriverSandbox) {
		return spec(func(s *computev1.DriverSandboxSpec) { s.Environment = map[string]string{name: value} })
	}
	const variable, command, image = "sandbox.spec.environment", "sandbox.spec.command", inTemplate + "image"
	oversized := []codes.Code{codes.ResourceExhausted, codes.FailedPrecondition}
	return []hostile{
		{name: "spec-none", path: "sandbox.spec", codes: oversized[1:], change: func(s *computev1.DriverSandbox) { s.Spec = nil }},
		{name: "image-space", path: image, open: true, change: spec(func(s *computev1.DriverSandboxSpec) { s.Template.Image = "a b" })},
		{name: "image-huge", path: image, open: true, change: spec(func(s *computev1.DriverSandboxSpec) { s.Template.Image = strings.Repeat("i", huge) })},
		{name: "env-openshell", path: variable, open: true, change: env("OPENSHELL_SANDBOX_UID", "0")},
		{name: "env-openshell-small", path: variable, open: true, change: env("openshell_endpoint", "x")},
		{name: "env-openshell-template", path: inTemplate + "environment", open: true, change: spec(func(s *computev1.DriverSandboxSpec) {
			s.Template.Environment = map[string]string{"OPENSHELL_K8S_SA_TOKEN_FILE": "/x"}
		})},
		{name: "env-empty-name", path: variable, change: env("", "x")},
		{name: "env-equals", path: variable, change: env("A=B", "x")},
		{name: "env-newline", path: variable, change: env("A\nB", "x")},
		{name: "env-nul", path: variable, change: env("A", "x\x00")},
		{name: "env-long", path: variable, open: true, change: env("A", strings.Repeat("x", 256<<10))},
		{name: "env-many", path: variable, open: true, change: spec(func(s *computev1.DriverSandboxSpec) { s.Environment = many(10000) })},
		{name: "command-nul", path: command, change: spec(func(s *computev1.DriverSandboxSpec) { s.Command = []string{"/bin/run", "a\x00b"} })},
		{name: "command-long", path: command, open: true, change: spec(func(s *computev1.DriverSandboxSpec) { s.Command = []string{strings.Repeat("x", huge)} })},
		{name: "command-many", path: command, open: true, change: spec(func(s *computev1.DriverSandboxSpec) { s.Command = make([]string, 100000) })},
		{name: "log-level", path: "sandbox.spec.log_level", open: true, change: spec(func(s *computev1.DriverSandboxSpec) { s.LogLevel = "info\nOPENSHELL_X=1" })},
		{name: "message-huge", path: "", codes: oversized, change: spec(func(s *computev1.DriverSandboxSpec) { s.Policy = make([]byte, 8<<20) })},
	}
}

func hostileMetadata() []hostile {
	var all []hostile
	const labels, annotations = inTemplate + "labels", inPlatform + ".annotations"
	own := map[string]bool{ // a driver's own, that it may write last
		"managed-by": true, "gateway": true, "id": true, "role": true, "pair": true, "below": true, "capitals": true, "former": true, "controller": true,
	}
	for name, one := range map[string][2]string{
		"managed-by": {"openshell.ai/managed-by", "me"}, "gateway": {"openshell.ai/gateway-id", "other"}, "id": {"openshell.ai/sandbox-id", "other"},
		"role": {"openshell.ai/boundary-role", "supervisor"}, "pair": {"openshell.ai/boundary-pair", "other"}, "below": {"x.openshell.ai/a", "b"},
		"capitals": {"OpenShell.AI/managed-by", "me"}, "former": {"openshell.io/sandbox-id", "other"}, "controller": {"agents.x-k8s.io/sandbox-name-hash", "x"},
		"empty-key": {"", "x"}, "two-slashes": {"a/b/c", "x"}, "long-key": {strings.Repeat("k", 64), "x"}, "huge-key": {strings.Repeat("k", huge), "x"},
		"long-value": {"a", strings.Repeat("v", 64)}, "space": {"a", "b c"},
	} {
		all = append(all, hostile{name: "label-" + name, path: labels, open: own[name], change: func(s *computev1.DriverSandbox) {
			s.Spec.Template.Labels = map[string]string{one[0]: one[1]}
		}})
	}
	all = append(all, hostile{name: "label-many", path: labels, open: true, change: func(s *computev1.DriverSandbox) { s.Spec.Template.Labels = many(1000) }})
	for name, value := range map[string]any{
		"id": map[string]any{"openshell.ai/sandbox-id": "other"}, "network": map[string]any{"k8s.v1.cni.cncf.io/networks": "macvlan"},
		"apparmor": map[string]any{"container.apparmor.security.beta.kubernetes.io/agent": "unconfined"},
		"key":      map[string]any{"a b": "x"}, "huge": map[string]any{"a": strings.Repeat("v", huge)}, "number": map[string]any{"a": 1.0}, "list": []any{},
	} {
		path := annotations
		if name == "huge" {
			path = inPlatform
		}
		all = append(all, hostile{name: "annotation-" + name, path: path, open: name == "id" || name == "network" || name == "apparmor", change: func(s *computev1.DriverSandbox) {
			s.Spec.Template.PlatformConfig = object(map[string]any{"annotations": value})
		}})
	}
	return byName(all)
}

func hostileQuantities() []hostile {
	var all []hostile
	large := map[string]bool{"exponent": true, "overflow": true, "exbibytes": true, "long": true, "zero": true} // quantities all the same
	for name, text := range map[string]string{
		"word": "much", "negative": "-1", "exponent": "1e999999999", "overflow": "99999999999999999999999999", "exbibytes": "9223372036854775807Ei",
		"space": "1 Gi", "infinite": "Inf", "nan": "NaN", "hexadecimal": "0x10", "long": strings.Repeat("9", huge), "zero": "0",
	} {
		all = append(all, hostile{name: "memory-" + name, path: inTemplate + "resources.memory_limit", open: large[name], change: func(s *computev1.DriverSandbox) {
			s.Spec.Template.Resources = &computev1.DriverResourceRequirements{MemoryLimit: text}
		}})
	}
	return append(byName(all),
		hostile{name: "cpu-request-over-limit", path: inTemplate + "resources", change: func(s *computev1.DriverSandbox) {
			s.Spec.Template.Resources = &computev1.DriverResourceRequirements{CpuLimit: "1", CpuRequest: "2"}
		}},
		hostile{name: "gpu-zero", path: "sandbox.spec.resource_requirements.gpu.count", change: func(s *computev1.DriverSandbox) {
			s.Spec.ResourceRequirements = &computev1.ResourceRequirements{Gpu: &computev1.GpuResourceRequirements{Count: new(uint32)}}
		}},
		hostile{
			name: "extended-resource", path: inPlatform + ".resources_raw", codes: []codes.Code{codes.FailedPrecondition},
			change: func(s *computev1.DriverSandbox) {
				s.Spec.Template.PlatformConfig = object(map[string]any{"resources_raw": map[string]any{"limits": map[string]any{"example.com/dongle": "1"}}})
			},
		},
		hostile{name: "resources-type", path: inPlatform + ".resources_raw", change: func(s *computev1.DriverSandbox) {
			s.Spec.Template.PlatformConfig = object(map[string]any{"resources_raw": "all"})
		}},
	)
}

// hostileTexts hold bytes that are no text. A server may not come to look at such a message.
func hostileTexts() []hostile {
	var all []hostile
	for name, change := range map[string]func(*computev1.DriverSandbox){
		"id":      func(s *computev1.DriverSandbox) { s.Id = broken },
		"name":    func(s *computev1.DriverSandbox) { s.Name = broken },
		"command": func(s *computev1.DriverSandbox) { s.Spec.Command = []string{broken} },
		"value":   func(s *computev1.DriverSandbox) { s.Spec.Environment = map[string]string{"A": broken} },
		"label":   func(s *computev1.DriverSandbox) { s.Spec.Template.Labels = map[string]string{broken: "x"} },
		"image":   func(s *computev1.DriverSandbox) { s.Spec.Template.Image = broken },
		"config": func(s *computev1.DriverSandbox) {
			s.Spec.Template.PlatformConfig = &structpb.Struct{Fields: map[string]*structpb.Value{"runtime_class_name": structpb.NewStringValue(broken)}}
		},
	} {
		all = append(all, hostile{name: "bytes-" + name, codes: []codes.Code{codes.Internal, codes.Unknown}, change: func(s *computev1.DriverSandbox) {
			s.Spec.Policy = []byte(broken) // says that it is to be broken
			change(s)
		}})
	}
	return byName(all)
}
