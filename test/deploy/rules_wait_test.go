package deploy_test

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// podsWaitForWhatIsMissing: a daemon whose settings are wrong, or whose Secret is not there, runs and says so where it is probed, instead of
// being started again and again, or not at all.
func podsWaitForWhatIsMissing(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		for _, c := range containers(p) {
			if _, ok := ours(c); !ok {
				continue
			}
			i := slices.Index(c.Args, "--waiting-address")
			if i < 0 || i+1 == len(c.Args) || !probedAt(c, c.Args[i+1]) {
				found.add("container %s of %s does not answer its probes while its settings are wrong", c.Name, p.Workload)
			}
			for _, m := range c.VolumeMounts {
				if name := demanded(p, m.Name); slices.Contains(madeElsewhere, name) {
					found.add("container %s of %s does not run without %s, and so cannot say that it is missing", c.Name, p.Workload, name)
				}
			}
		}
	}
	return found
}

// probedAt reports whether the address, which has a port alone, is where the kubelet asks the container whether it is alive.
func probedAt(c corev1.Container, address string) bool {
	port, ok := strings.CutPrefix(address, ":")
	probe := c.LivenessProbe
	return ok && probe != nil && probe.HTTPGet != nil && slices.ContainsFunc(c.Ports, func(have corev1.ContainerPort) bool {
		return have.Name == probe.HTTPGet.Port.String() && hasNumber(corev1.Container{Ports: []corev1.ContainerPort{have}}, port)
	})
}

// demanded is the Secret or ConfigMap of a volume, as madeElsewhere has it, if the Pod does not start without; else empty.
func demanded(p deploy.Pod, volume string) string {
	yes := func(optional *bool) bool { return optional == nil || !*optional }
	for _, v := range p.Spec.Volumes {
		switch {
		case v.Name != volume:
		case v.Secret != nil && yes(v.Secret.Optional):
			return "Secret " + p.Namespace + "/" + v.Secret.SecretName
		case v.ConfigMap != nil && yes(v.ConfigMap.Optional):
			return "ConfigMap " + p.Namespace + "/" + v.ConfigMap.Name
		}
	}
	return ""
}
