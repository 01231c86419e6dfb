package request

import (
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const (
	maxVolumes     = 32
	maxMounts      = 64
	maxTolerations = 64
)

// config is what a driver_config or a platform_config says. Each has some of it.
type config struct {
	nodeSelector                map[string]string
	runtimeClass, priorityClass string
	tolerations                 []corev1.Toleration
	requests, limits            amounts
	annotations                 map[string]string
	volumes                     []Volume
	mounts                      []Mount
}

// callerConfig reads the caller's block (contract 11.4), behind the gate that the gateway has too (contract 2.5).
func (c *reading) callerConfig(s *structpb.Struct) config {
	const root = "sandbox.spec.template.driver_config"
	if len(s.GetFields()) == 0 {
		return config{}
	}
	if !c.reader.settings.AllowDriverConfig {
		c.add(verdict.DriverConfigDisabled, root, "caller driver config is disabled")
		return config{}
	}
	c.spec.CallerConfig = true
	if !c.measured(root, s) {
		return config{}
	}
	top := fields(s.GetFields())
	c.known(root, top, "pod", "containers", "volumes")
	var out config
	c.callerPod(root+".pod", top["pod"], &out)
	c.callerVolumes(root+".volumes", top["volumes"], &out)
	containers := c.object(root+".containers", top["containers"])
	c.known(root+".containers", containers, "agent")
	c.callerAgent(root+".containers.agent", containers["agent"], &out)
	return out
}

func (c *reading) callerPod(path string, v *structpb.Value, out *config) {
	pod := c.object(path, v)
	c.known(path, pod, "node_selector", "runtime_class_name", "priority_class_name", "tolerations")
	out.nodeSelector = c.selector(path+".node_selector", pod["node_selector"])
	out.runtimeClass = c.class(path+".runtime_class_name", pod["runtime_class_name"])
	out.priorityClass = c.priority(path+".priority_class_name", pod["priority_class_name"])
	out.tolerations = c.tolerations(path+".tolerations", pod["tolerations"])
}

func (c *reading) callerAgent(path string, v *structpb.Value, out *config) {
	agent := c.object(path, v)
	c.known(path, agent, "resources", "volume_mounts")
	resources := c.object(path+".resources", agent["resources"])
	c.known(path+".resources", resources, "requests", "limits")
	out.requests = c.quantities(path+".resources.requests", resources["requests"], false)
	out.limits = c.quantities(path+".resources.limits", resources["limits"], true)
	c.callerMounts(path+".volume_mounts", agent["volume_mounts"], out)
}

// platformConfig reads what the gateway made of the caller's template (contract 11.3). What it does not know it passes over: a
// newer gateway may say more.
func (c *reading) platformConfig(s *structpb.Struct) config {
	const root = "sandbox.spec.template.platform_config"
	if len(s.GetFields()) == 0 || !c.measured(root, s) {
		return config{}
	}
	top := fields(s.GetFields())
	raw := c.object(root+".resources_raw", top["resources_raw"])
	return config{
		runtimeClass: c.class(root+".runtime_class_name", top["runtime_class_name"]),
		annotations:  c.annotations(root+".annotations", c.texts(root+".annotations", top["annotations"])),
		nodeSelector: c.selector(root+".node_selector", top["node_selector"]),
		tolerations:  c.tolerations(root+".tolerations", top["tolerations"]),
		requests:     c.quantities(root+".resources_raw.requests", raw["requests"], false),
		limits:       c.quantities(root+".resources_raw.limits", raw["limits"], true),
	}
}
