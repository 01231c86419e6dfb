package deploy_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// breaches are what is wrong, one sentence each.
type breaches []string

func (b *breaches) add(format string, args ...any) { *b = append(*b, fmt.Sprintf(format, args...)) }

// containers are all of a Pod, those that initialise it first.
func containers(p deploy.Pod) []corev1.Container {
	return slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
}

// stays reports whether a container is to run for as long as its Pod.
func stays(p deploy.Pod, c corev1.Container) bool {
	if slices.ContainsFunc(p.Spec.Containers, func(main corev1.Container) bool { return main.Name == c.Name }) {
		return p.Replicas > 0
	}
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// podsRestricted: the strictest level of Pod security, as the API server's own admission judges it, and what that leaves open.
func podsRestricted(w *deploy.World) (found breaches) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return breaches{err.Error()}
	}
	level := psa.LevelVersion{Level: psa.LevelRestricted, Version: psa.LatestVersion()}
	for _, p := range w.Pods {
		if result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &p.Meta, &p.Spec)); !result.Allowed {
			found.add("the Pods of %s are not restricted: %s", p.Workload, result.ForbiddenDetail())
		}
		for _, c := range containers(p) {
			if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
				found.add("%s can write to the root of container %s", p.Workload, c.Name)
			}
		}
	}
	return found
}

// podsFrugal: what a Pod asks for, it says; what it is not to have, it does not get.
func podsFrugal(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		if p.Spec.EnableServiceLinks == nil || *p.Spec.EnableServiceLinks {
			found.add("%s has the addresses of all Services in its environment", p.Workload)
		}
		for _, c := range containers(p) {
			memory, bounded := c.Resources.Limits[corev1.ResourceMemory]
			_, wants := c.Resources.Requests[corev1.ResourceMemory]
			_, busy := c.Resources.Requests[corev1.ResourceCPU]
			if _, throttled := c.Resources.Limits[corev1.ResourceCPU]; throttled || !bounded || !wants || !busy {
				found.add("container %s of %s needs requests of both, a limit of memory and none of processor time", c.Name, p.Workload)
			}
			if image, _, tag := imageOf(c); tag == "" || tag == "latest" {
				found.add("container %s of %s runs whatever %s is today", c.Name, p.Workload, image)
			}
			_, program, _ := imageOf(c)
			if serves := (slices.Contains(daemons, program) || program == "nats") && len(c.Ports) > 0; serves && stays(p, c) && !hasEnv(c, "GOMEMLIMIT") {
				found.add("container %s of %s has no GOMEMLIMIT: it is killed at its limit of memory instead of collecting before", c.Name, p.Workload)
			}
			for _, e := range c.Env {
				if limit, err := resource.ParseQuantity(strings.TrimSuffix(e.Value, "B")); e.Name == "GOMEMLIMIT" && (err != nil || limit.Cmp(memory) >= 0) {
					found.add("container %s of %s has GOMEMLIMIT %q, which is not below its limit of memory, %s", c.Name, p.Workload, e.Value, memory.String())
				}
			}
		}
	}
	return found
}

// hasEnv reports whether a container's environment has a variable.
func hasEnv(c corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
}

// grace is what a daemon needs from the kubelet: shutdown_grace and 3 seconds.
const grace = 20 + 3

// podsEnd: the kubelet waits for longer than a daemon takes to stop, and says why one, a command of its image or NATS has ended by itself.
func podsEnd(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		if given := p.Spec.TerminationGracePeriodSeconds; p.Replicas > 0 && (given == nil || *given < grace) {
			found.add("%s is killed in the middle of its stop: it needs terminationGracePeriodSeconds of %d or more", p.Workload, grace)
		}
		for _, c := range containers(p) {
			_, program, _ := imageOf(c)
			if (slices.Contains(daemons, program) || program == "nats") && c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
				found.add("nobody sees why container %s of %s has ended", c.Name, p.Workload)
			}
		}
	}
	return found
}

// podsProbed: what stays and listens is looked at, at ports that it has. Whether a Pod is ready is for its main containers to say. Nothing is
// ended because it is not ready: it waits, and says why.
func podsProbed(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		for _, c := range containers(p) {
			probes := map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe}
			_, program, _ := imageOf(c)
			ours := (slices.Contains(daemons, program) || program == "nats") && len(c.Ports) > 0
			for name, probe := range probes {
				if probe == nil && ours && stays(p, c) && (name != "readiness" || c.RestartPolicy == nil) {
					found.add("container %s of %s has no %s probe", c.Name, p.Workload, name)
				}
				if probe == nil || probe.HTTPGet == nil {
					continue
				}
				if patience := probe.PeriodSeconds * probe.FailureThreshold; name != "readiness" && strings.HasPrefix(probe.HTTPGet.Path, "/readyz") && patience < aDay {
					found.add("the %s probe of container %s of %s ends it after %d s of waiting", name, c.Name, p.Workload, patience)
				}
				if _, ok := portOf(c, probe.HTTPGet.Port.String()); !ok {
					found.add("the %s probe of container %s of %s is for port %s, which it does not have", name, c.Name, p.Workload, probe.HTTPGet.Port.String())
				}
			}
		}
	}
	return found
}

// aDay is how many seconds a container may wait until it is ready to start, at least.
const aDay = 24 * 60 * 60

// portOf finds a container's port by its name or number.
func portOf(c corev1.Container, port string) (int32, bool) {
	for _, have := range c.Ports {
		if have.Name == port || strconv.Itoa(int(have.ContainerPort)) == port {
			return have.ContainerPort, true
		}
	}
	return 0, false
}

// hasPort reports whether any container of the Pod has the port.
func hasPort(p deploy.Pod, port string) bool {
	return slices.ContainsFunc(containers(p), func(c corev1.Container) bool { _, ok := portOf(c, port); return ok })
}

// filesFollow: no file is mounted so that its changes never arrive, and every mount has its volume.
func filesFollow(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		for _, c := range containers(p) {
			for _, m := range c.VolumeMounts {
				if m.SubPath != "" || m.SubPathExpr != "" {
					found.add("container %s of %s mounts a subPath at %s, whose changes never arrive", c.Name, p.Workload, m.MountPath)
				}
				if !slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) &&
					!strings.HasPrefix(p.Workload, "StatefulSet ") {
					found.add("container %s of %s mounts %s, and there is no such volume", c.Name, p.Workload, m.Name)
				}
			}
		}
	}
	return found
}

// settingsAreHashed: a change of the settings is another ConfigMap, and so a rollout.
func settingsAreHashed(w *deploy.World) (found breaches) {
	for _, c := range w.ConfigMaps {
		if _, ok := c.Data["gateway.toml"]; ok && c.Name == "portcullis-config" {
			found.add("ConfigMap %s has no hash in its name: nobody restarts when it changes", c.Name)
		}
	}
	return found
}
