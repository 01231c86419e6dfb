package conformance

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

func byName(all []hostile) []hostile {
	slices.SortFunc(all, func(a, b hostile) int { return cmp.Compare(a.name, b.name) })
	return all
}

// A volume and a mount by the schema (contract 11.4), for one of them to be changed.
func volume(change map[string]any) map[string]any {
	return overlay(map[string]any{"name": "data", "persistent_volume_claim": map[string]any{"claim_name": "datasets"}}, change)
}

func mount(change map[string]any) map[string]any {
	return overlay(map[string]any{"name": "data", "mount_path": "/data"}, change)
}

func overlay(base, change map[string]any) map[string]any {
	for name, value := range change {
		base[name] = value
	}
	return base
}

func attached(volumes, mounts []any) map[string]any {
	return map[string]any{"volumes": volumes, "containers": map[string]any{"agent": map[string]any{"volume_mounts": mounts}}}
}

func mounted(change map[string]any) map[string]any {
	return attached([]any{volume(nil)}, []any{mount(change)})
}

func pod(members map[string]any) map[string]any { return map[string]any{"pod": members} }

func agent(members map[string]any) map[string]any {
	return map[string]any{"containers": map[string]any{"agent": members}}
}

// nested is deeper than any configuration.
func nested(depth int) any {
	var v any = "x"
	for range depth {
		v = map[string]any{"a": v}
	}
	return v
}

func hostileConfigs() []hostile {
	const mounts, volumes = inConfig + ".containers.agent.volume_mounts", inConfig + ".volumes"
	const resources = inConfig + ".containers.agent.resources"
	var all []hostile
	add := func(name, path string, open bool, config map[string]any) {
		all = append(all, hostile{
			name: "config-" + name, path: path, open: open, needs: []ability{takesConfig},
			change: func(s *computev1.DriverSandbox) { s.Spec.Template.DriverConfig = object(config) },
		})
	}
	// The schema: unknown members and other types.
	add("unknown", inConfig, false, map[string]any{"host_network": true})
	add("unknown-pod", inConfig+".pod", false, pod(map[string]any{"hostNetwork": true}))
	add("unknown-container", inConfig+".containers", false, map[string]any{"containers": map[string]any{"sidecar": map[string]any{}}})
	add("unknown-agent", inConfig+".containers.agent", false, agent(map[string]any{"security_context": map[string]any{"privileged": true}}))
	add("type", inConfig+".pod", false, map[string]any{"pod": "x"})
	add("toleration-type", inConfig+".pod.tolerations", false, pod(map[string]any{"tolerations": []any{"all"}}))
	add("toleration-unknown", inConfig+".pod.tolerations", false, pod(map[string]any{"tolerations": []any{map[string]any{"toleratesEverything": true}}}))
	add("selector-type", inConfig+".pod.node_selector", false, pod(map[string]any{"node_selector": map[string]any{"a": 1.0}}))
	add("priority-system", inConfig+".pod.priority_class_name", true, pod(map[string]any{"priority_class_name": "system-node-critical"}))
	add("class-name", inConfig+".pod.runtime_class_name", true, pod(map[string]any{"runtime_class_name": "../x"}))
	add("quantity", resources, false, agent(map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "much"}}}))
	add("quantity-overflow", resources, true, agent(map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "1e999999999"}}}))
	add("quantity-float", resources, true, agent(map[string]any{"resources": map[string]any{"limits": map[string]any{"cpu": 1e308}}}))
	add("claims", resources, false, agent(map[string]any{"resources": map[string]any{"claims": []any{}}}))
	add("quantity-contradiction", resources, false, agent(map[string]any{"resources": map[string]any{
		"requests": map[string]any{"ephemeral-storage": "2Gi"}, "limits": map[string]any{"ephemeral-storage": "1Gi"},
	}}))
	// Bombs.
	add("deep", inConfig, false, map[string]any{"pod": nested(1000)})
	add("wide", inConfig, true, map[string]any{"volumes": make([]any, 50000)})
	add("long", inConfig, true, pod(map[string]any{"runtime_class_name": strings.Repeat("x", huge)}))
	// Volumes and mounts.
	add("volume-hostpath", volumes, false, attached([]any{volume(map[string]any{"host_path": map[string]any{"path": "/"}})}, nil))
	add("volume-reserved", volumes, false, attached([]any{volume(map[string]any{"name": "openshell-sa-token"})}, nil))
	add("volume-workspace", volumes, false, attached([]any{volume(map[string]any{"name": "workspace"})}, nil))
	add("volume-name", volumes, false, attached([]any{volume(map[string]any{"name": "../x"})}, nil))
	add("volume-twice", volumes, false, attached([]any{volume(nil), volume(nil)}, nil))
	add("volume-no-claim", volumes, false, attached([]any{map[string]any{"name": "data"}}, nil))
	add("mount-undeclared", mounts, false, attached([]any{volume(nil)}, []any{mount(map[string]any{"name": "other"})}))
	add("mount-twice", mounts, false, attached([]any{volume(nil)}, []any{mount(nil), mount(nil)}))
	add("mount-writable", mounts, false, mounted(map[string]any{"read_only": false}))
	for name, path := range map[string]string{
		"relative": "data", "parent": "/data/../etc", "dot": "/data/./x", "empty-segment": "/data//x", "slash": "/data/", "root": "/", "none": "",
		"nul": "/data\x00", "newline": "/data\n", "space": " /data", "workspace": "/sandbox", "runtime": "/opt/openshell/bin", "settings": "/etc/openshell",
		"over-settings": "/etc", "tls": "/etc/openshell-tls/x", "run": "/run/openshell", "over-run": "/run", "netns": "/run/netns",
		"token": "/var/run/secrets/openshell", "over-token": "/var/run", "long": "/" + strings.Repeat("x", 8<<10),
	} {
		add("mount-path-"+name, mounts, name == "long", mounted(map[string]any{"mount_path": path}))
	}
	for name, path := range map[string]string{"parent": "../x", "inner-parent": "a/../../x", "absolute": "/etc", "nul": "a\x00", "space": " a", "none": ""} {
		add("sub-path-"+name, mounts, false, mounted(map[string]any{"sub_path": path}))
	}
	all = append(all, hostile{
		name: "config-null-value", path: inConfig, needs: []ability{takesConfig}, open: true,
		change: func(s *computev1.DriverSandbox) {
			s.Spec.Template.DriverConfig = &structpb.Struct{Fields: map[string]*structpb.Value{"pod": structpb.NewNullValue()}}
		},
	}, hostile{
		name: "config-disabled", path: inConfig, needs: []ability{refusesConfig}, codes: []codes.Code{codes.FailedPrecondition},
		change: func(s *computev1.DriverSandbox) {
			s.Spec.Template.DriverConfig = object(pod(map[string]any{"node_selector": map[string]any{"a": "b"}}))
		},
	})
	return byName(all)
}
