package companion_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
)

// stored is what an API server makes of a supervisor Pod: defaults, a status, and what admission adds.
func stored(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	p.UID, p.ResourceVersion, p.CreationTimestamp = "uid-supervisor", "12", metav1.Now()
	p.Spec.DNSPolicy, p.Spec.SchedulerName, p.Spec.DeprecatedServiceAccount = corev1.DNSClusterFirst, "default-scheduler", p.Spec.ServiceAccountName
	p.Spec.Priority, p.Spec.PreemptionPolicy = new(int32(0)), new(corev1.PreemptLowerPriority)
	p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	c := &p.Spec.Containers[0]
	c.TerminationMessagePath = "/dev/termination-log"
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = corev1.PullIfNotPresent
	}
	c.ReadinessProbe.TimeoutSeconds, c.ReadinessProbe.SuccessThreshold = 1, 1
	p.Status = corev1.PodStatus{Phase: corev1.PodPending}
	return p
}

func storedService(service *corev1.Service) *corev1.Service {
	s := service.DeepCopy()
	s.UID, s.ResourceVersion = "uid-service", "12"
	s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.7", []string{"10.96.0.7"}
	s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, new(corev1.IPFamilyPolicySingleStack)
	s.Spec.SessionAffinity, s.Spec.InternalTrafficPolicy = corev1.ServiceAffinityNone, new(corev1.ServiceInternalTrafficPolicyCluster)
	return s
}

func TestCompareSupervisor(t *testing.T) {
	container := func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		want   companion.Relation
		words  string
	}{
		{"as stored", func(*corev1.Pod) {}, companion.Same, ""},
		{"no longer gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }, companion.Same, ""},
		{"scheduled", func(p *corev1.Pod) { p.Spec.SchedulingGates, p.Spec.NodeName = nil, "node-1" }, companion.Same, ""},
		{"more labels and annotations", func(p *corev1.Pod) { p.Labels["a"], p.Annotations["b"] = "x", "y" }, companion.Same, ""},
		{"one more container", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "mesh"}) }, companion.Same, ""},
		{"one more container before ours", func(p *corev1.Pod) {
			p.Spec.Containers = append([]corev1.Container{{Name: "mesh"}}, p.Spec.Containers...)
		}, companion.Same, ""},
		{"one more variable", func(p *corev1.Pod) {
			container(p).Env = append(container(p).Env, corev1.EnvVar{Name: "HOST_IP", Value: "x"})
		}, companion.Same, ""},
		{"another trace", func(p *corev1.Pod) {
			for i := range container(p).Env {
				if container(p).Env[i].Name == "TRACEPARENT" {
					container(p).Env[i].Value = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01"
				}
			}
		}, companion.Same, ""},
		{"one more owner of another kind", func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "x"})
		}, companion.Same, ""},

		{"another name", func(p *corev1.Pod) { p.Name = "x" }, companion.Unknown, "was asked for"},
		{"another namespace", func(p *corev1.Pod) { p.Namespace = "x" }, companion.Unknown, "was asked for"},
		{"no labels", func(p *corev1.Pod) { p.Labels = nil }, companion.Foreign, "managed-by"},
		{"managed by another", func(p *corev1.Pod) { p.Labels["openshell.ai/managed-by"] = "helm" }, companion.Foreign, "managed-by"},
		{"another component", func(p *corev1.Pod) { p.Labels["openshell.ai/component"] = "x" }, companion.Foreign, "component"},
		{"another sandbox id", func(p *corev1.Pod) { p.Labels["openshell.ai/sandbox-id"] = strings.ToUpper(id) }, companion.Foreign, "sandbox-id"},
		{"no owner", func(p *corev1.Pod) { p.OwnerReferences = nil }, companion.Foreign, "no owner"},
		{"two Sandboxes", func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0])
		}, companion.Foreign, "more than one owner"},
		{"controlled", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = new(true) }, companion.Foreign, "controlled"},
		{"owned by the Sandbox before", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "uid-before" }, companion.OtherSandbox, "uid-before"},
		{"of the run before", func(p *corev1.Pod) { p.Annotations["openshell.ai/sandbox-runtime-generation"] = "g00000000001-first" }, companion.OtherRun, "g00000000001-first"},
		{"of no run", func(p *corev1.Pod) { delete(p.Annotations, "openshell.ai/sandbox-runtime-generation") }, companion.OtherRun, "generation"},
		{"being deleted", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, companion.Leaving, "being deleted"},
		{"of the run before, being deleted", func(p *corev1.Pod) {
			p.Annotations["openshell.ai/sandbox-runtime-generation"], p.DeletionTimestamp = "old", &metav1.Time{}
		}, companion.OtherRun, "old"},
		{"foreign and being deleted", func(p *corev1.Pod) { p.Labels, p.DeletionTimestamp = nil, &metav1.Time{} }, companion.Foreign, "managed-by"},

		{"another gateway", func(p *corev1.Pod) { p.Labels["openshell.ai/gateway-id"] = "x" }, companion.Altered, "gateway-id"},
		{"another pair", func(p *corev1.Pod) { p.Labels["openshell.ai/boundary-pair"] = "x" }, companion.Altered, "boundary-pair"},
		{"no role", func(p *corev1.Pod) { delete(p.Labels, "openshell.ai/boundary-role") }, companion.Altered, "boundary-role is not set"},
		{"another id in the former annotation", func(p *corev1.Pod) { p.Annotations["openshell.io/sandbox-id"] = "x" }, companion.Altered, "openshell.io/sandbox-id"},
		{"blocking its owner", func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = new(true) }, companion.Altered, "blockOwnerDeletion"},
		{"another image", func(p *corev1.Pod) { container(p).Image = "x" }, companion.Altered, `image is "x", and must be "registry.example`},
		{"arguments behind a sidecar", func(p *corev1.Pod) {
			container(p).Args = []string{"--verbose"}
			p.Spec.Containers = append([]corev1.Container{{Name: "mesh"}}, p.Spec.Containers...)
		}, companion.Altered, "args"},
		{"one more name for a host", func(p *corev1.Pod) {
			p.Spec.HostAliases = append(p.Spec.HostAliases, corev1.HostAlias{IP: "203.0.113.9", Hostnames: []string{"gateway.example"}})
		}, companion.Altered, "hostAliases"},
		{"another container", func(p *corev1.Pod) { container(p).Name = "x" }, companion.Altered, "containers[name=supervisor] is there 0 times"},
		{"one more argument", func(p *corev1.Pod) { container(p).Command = append(container(p).Command, "--verbose") }, companion.Altered, "command"},
		{"arguments", func(p *corev1.Pod) { container(p).Args = []string{"--verbose"} }, companion.Altered, "args"},
		{"another argument", func(p *corev1.Pod) { container(p).Command[2] = "/x" }, companion.Altered, "command[2]"},
		{"another endpoint", func(p *corev1.Pod) { container(p).Env[1].Value = "https://x" }, companion.Altered, "OPENSHELL_ENDPOINT"},
		{"an endpoint from elsewhere", func(p *corev1.Pod) {
			container(p).Env[1].ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
		}, companion.Altered, "OPENSHELL_ENDPOINT"},
		{"an endpoint after ours", func(p *corev1.Pod) {
			container(p).Env = append(container(p).Env, corev1.EnvVar{Name: "OPENSHELL_ENDPOINT", Value: "https://x"})
		}, companion.Altered, "is there 2 times"},
		{"a value where there is none", func(p *corev1.Pod) {
			for i := range container(p).Env {
				if container(p).Env[i].Name == "OPENSHELL_NETWORK_RUNTIME_CAPABILITIES" {
					container(p).Env[i].Value = "policy-dns-transparent-tcp"
				}
			}
		}, companion.Altered, "OPENSHELL_NETWORK_RUNTIME_CAPABILITIES"},
		{"variables from elsewhere", func(p *corev1.Pod) { container(p).EnvFrom = []corev1.EnvFromSource{{Prefix: "x"}} }, companion.Altered, "envFrom"},
		{"a hook", func(p *corev1.Pod) { container(p).Lifecycle = &corev1.Lifecycle{} }, companion.Altered, "lifecycle"},
		{"another user", func(p *corev1.Pod) { container(p).SecurityContext.RunAsUser = new(int64(0)) }, companion.Altered, "runAsUser"},
		{"privileged", func(p *corev1.Pod) { container(p).SecurityContext.Privileged = new(true) }, companion.Altered, "privileged"},
		{"a capability", func(p *corev1.Pod) {
			container(p).SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		}, companion.Altered, "capabilities"},
		{"no security context", func(p *corev1.Pod) { container(p).SecurityContext = nil }, companion.Altered, "securityContext is not set"},
		{"a writable root", func(p *corev1.Pod) { container(p).SecurityContext.ReadOnlyRootFilesystem = nil }, companion.Altered, "readOnlyRootFilesystem"},
		{"no probe", func(p *corev1.Pod) { container(p).ReadinessProbe = nil }, companion.Altered, "readinessProbe"},
		{"another Secret", func(p *corev1.Pod) { p.Spec.Volumes[0].Secret.SecretName = "x" }, companion.Altered, "volumes[name=bootstrap]"},
		{"an optional Secret", func(p *corev1.Pod) { p.Spec.Volumes[0].Secret.Optional = new(true) }, companion.Altered, "volumes[name=bootstrap]"},
		{"part of the Secret", func(p *corev1.Pod) {
			p.Spec.Volumes[0].Secret.Items = []corev1.KeyToPath{{Key: "auth.json", Path: "auth.json"}}
		}, companion.Altered, "volumes[name=bootstrap]"},
		{"another audience", func(p *corev1.Pod) { p.Spec.Volumes[1].Projected.Sources[0].ServiceAccountToken.Audience = "x" }, companion.Altered, "sa-token"},
		{"one more projected source", func(p *corev1.Pod) {
			p.Spec.Volumes[1].Projected.Sources = append(p.Spec.Volumes[1].Projected.Sources, corev1.VolumeProjection{})
		}, companion.Altered, "sa-token"},
		{"a mount that is writable", func(p *corev1.Pod) { container(p).VolumeMounts[0].ReadOnly = false }, companion.Altered, "volumeMounts"},
		{"a mount of a part", func(p *corev1.Pod) { container(p).VolumeMounts[0].SubPath = "x" }, companion.Altered, "volumeMounts"},
		{"a volume less", func(p *corev1.Pod) { p.Spec.Volumes = p.Spec.Volumes[1:] }, companion.Altered, "volumes[name=bootstrap] is there 0 times"},
		{"another account", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" }, companion.Altered, "serviceAccountName"},
		{"a mounted token", func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(true) }, companion.Altered, "automountServiceAccountToken"},
		{"on the host's network", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, companion.Altered, "hostNetwork"},
		{"among the host's processes", func(p *corev1.Pod) { p.Spec.HostPID = true }, companion.Altered, "hostPID"},
		{"restarting", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }, companion.Altered, "restartPolicy"},
		{"more patient", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(300)) }, companion.Altered, "terminationGracePeriodSeconds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := base(t)
			w.settings.SupervisorOTLPEndpoint = "http://collector.example:4317"
			w.settings.HostGatewayIP = "192.0.2.1"
			w.sandbox.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			wanted := w.pod(t)
			existing := stored(wanted)
			c.change(existing)
			got := companion.CompareSupervisor(existing, wanted)
			if got.Relation != c.want || (c.words == "") != (got.Difference == "") || !strings.Contains(got.Difference, c.words) {
				t.Errorf("got %s (%s), want %s with %q", got.Relation, got.Difference, c.want, c.words)
			}
			if strings.Contains(got.Difference, "/bin/run") {
				t.Errorf("the difference shows the main process: %s", got.Difference)
			}
		})
	}
}

// TestADifferenceShowsNoCommand: the main process may hold what its owner wants kept.
func TestADifferenceShowsNoCommand(t *testing.T) {
	w := base(t)
	wanted := w.pod(t)
	existing := stored(wanted)
	for i := range existing.Spec.Containers[0].Env {
		if v := &existing.Spec.Containers[0].Env[i]; v.Name == "OPENSHELL_MAIN_PROCESS_SPEC" {
			v.Value = "hunter2"
		}
	}
	got := companion.CompareSupervisor(existing, wanted)
	if got.Relation != companion.Altered || strings.Contains(got.Difference, "hunter2") || strings.Contains(got.Difference, "/bin/run") {
		t.Errorf("got %+v", got)
	}
}

func TestCompareService(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*corev1.Service)
		want   companion.Relation
		words  string
	}{
		{"as stored", func(*corev1.Service) {}, companion.Same, ""},
		{"more labels", func(s *corev1.Service) { s.Labels["a"] = "b" }, companion.Same, ""},
		{"owned by another Sandbox", func(s *corev1.Service) { s.OwnerReferences[0].UID = "x" }, companion.OtherSandbox, "uid x"},
		{"no owner", func(s *corev1.Service) { s.OwnerReferences = nil }, companion.Foreign, "owner"},
		{"no labels", func(s *corev1.Service) { s.Labels = nil }, companion.Foreign, "managed-by"},
		{"being deleted", func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{} }, companion.Leaving, "being deleted"},
		{"another type", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, companion.Altered, "spec.type"},
		{"another port", func(s *corev1.Service) { s.Spec.Ports[0].Port = 80 }, companion.Altered, "port"},
		{"another target", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("x") }, companion.Altered, "targetPort"},
		{"one more port", func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "x"}) }, companion.Altered, "ports"},
		{"no selector", func(s *corev1.Service) { s.Spec.Selector = nil }, companion.Altered, "selector is not set"},
		{"a narrower selector", func(s *corev1.Service) { s.Spec.Selector["a"] = "b" }, companion.Altered, "more labels"},
		{"another selector", func(s *corev1.Service) { s.Spec.Selector["openshell.ai/boundary-pair"] = "x" }, companion.Altered, "boundary-pair"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wanted := base(t).service(t)
			existing := storedService(wanted)
			c.change(existing)
			got := companion.CompareService(existing, wanted)
			if got.Relation != c.want || (c.words == "") != (got.Difference == "") || !strings.Contains(got.Difference, c.words) {
				t.Errorf("got %s (%s), want %s with %q", got.Relation, got.Difference, c.want, c.words)
			}
		})
	}
}

// TestAServiceOutlivesRuns: the next run finds the Service of the one before, and not its supervisor.
func TestAServiceOutlivesRuns(t *testing.T) {
	w := base(t)
	service, pod := storedService(w.service(t)), stored(w.pod(t))
	w.sandbox.Generation = "g00000000001-third" // its Secrets have the names of the second's
	if got := companion.CompareService(service, w.service(t)); got.Relation != companion.Same {
		t.Errorf("the Service: %+v", got)
	}
	if got := companion.CompareSupervisor(pod, w.pod(t)); got.Relation != companion.OtherRun {
		t.Errorf("the supervisor: %+v", got)
	}
}

func TestCompareWithoutAnObject(t *testing.T) {
	w := base(t)
	if got := companion.CompareSupervisor(nil, w.pod(t)); got.Relation != companion.Absent {
		t.Errorf("no Pod: %+v", got)
	}
	if got := companion.CompareService(nil, w.service(t)); got.Relation != companion.Absent {
		t.Errorf("no Service: %+v", got)
	}
	if got := companion.CompareSupervisor(w.pod(t), nil); got.Relation != companion.Unknown {
		t.Errorf("no wanted Pod: %+v", got)
	}
	if got := companion.CompareService(nil, nil); got.Relation != companion.Unknown {
		t.Errorf("nothing at all: %+v", got)
	}
	if (companion.Comparison{}).Relation == companion.Same || (companion.Same+1).String() != "unknown" || companion.Same.String() != "same" {
		t.Error("the zero comparison allows something")
	}
}

func TestGated(t *testing.T) {
	pod := base(t).pod(t)
	if !companion.Gated(pod) {
		t.Error("the rendered Pod is not held back")
	}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/other"}}
	if companion.Gated(pod) {
		t.Error("another gate is taken for ours")
	}
}

// TestAStoredObjectIsTheSame for each golden case.
func TestAStoredObjectIsTheSame(t *testing.T) {
	for _, c := range goldenCases {
		w := base(t)
		c.change(w)
		pod, service := w.pod(t), w.service(t)
		if got := companion.CompareSupervisor(stored(pod), pod); got.Relation != companion.Same {
			t.Errorf("%s: the stored Pod is %+v", c.name, got)
		}
		if got := companion.CompareService(storedService(service), service); got.Relation != companion.Same {
			t.Errorf("%s: the stored Service is %+v", c.name, got)
		}
	}
}

// TestEachFieldCounts changes every rendered leaf of a Pod and a Service, one at a time: none may be the same then, except
// for what comparing leaves out on purpose.
func TestEachFieldCounts(t *testing.T) {
	for _, c := range goldenCases {
		if c.name != "everything" && c.name != "managed-client-key" {
			continue // the others have no field that these have not
		}
		w := base(t)
		c.change(w)
		pod, service := w.pod(t), w.service(t)
		eachLeaf(t, pod, func(path string, changed []byte) {
			existing := &corev1.Pod{}
			if json.Unmarshal(changed, existing) != nil {
				return
			}
			leftOut := strings.Contains(path, "schedulingGates")
			if got := companion.CompareSupervisor(existing, pod); (got.Relation == companion.Same) && !leftOut {
				t.Errorf("%s: with another %s the Pod is the same", c.name, path)
			}
		})
		eachLeaf(t, service, func(path string, changed []byte) {
			existing := &corev1.Service{}
			if json.Unmarshal(changed, existing) == nil && companion.CompareService(existing, service).Relation == companion.Same {
				t.Errorf("%s: with another %s the Service is the same", c.name, path)
			}
		})
	}
}

// eachLeaf calls try with the JSON of object for each of its scalars, that one changed.
func eachLeaf(t *testing.T, object any, try func(path string, changed []byte)) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	delete(tree, "status")
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		switch node := v.(type) {
		case map[string]any:
			if name, _ := node["name"].(string); strings.HasPrefix(name, "TRACE") {
				return // left out on purpose
			}
			for key, value := range node {
				walk(path+"."+key, value, func(v any) { node[key] = v })
			}
		case []any:
			for i, value := range node {
				walk(fmt.Sprintf("%s.%d", path, i), value, func(v any) { node[i] = v })
			}
		default:
			set(other(v))
			changed, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			try(path, changed)
			set(v)
		}
	}
	walk("", tree, nil)
}

func other(v any) any {
	switch v := v.(type) {
	case string:
		return v + "x"
	case float64:
		return v + 1
	case bool:
		return !v
	default:
		return "x"
	}
}
