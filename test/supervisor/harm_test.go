package supervisor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// newest is the dialect of tests for which the version does not matter.
var newest = reconcile.Newest()

func sharedCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	return cluster.Start(t, cluster.ControlPlane)
}

// foreign makes an object that has the name of a companion and is somebody else's.
var foreign = []struct {
	name   string
	makes  func(t *testing.T, s *supervisor.Site, b *supervisor.Box)
	reason verdict.Reason
}{
	{"policy for workloads of our name", policyOf("openshell-sandbox-workloads", nil), verdict.CompanionCollision},
	{"policy for supervisors of our name", policyOf("openshell-sandbox-supervisors", nil), verdict.CompanionCollision},
	{"our policy for workloads with an egress rule", policyOf("openshell-sandbox-workloads", map[string]string{
		"openshell.ai/managed-by": "openshell", "openshell.ai/component": "sandbox-workload-fence",
	}), verdict.FenceAltered},
	{"our policy for supervisors for other Pods", policyOf("openshell-sandbox-supervisors", map[string]string{
		"openshell.ai/managed-by": "openshell", "openshell.ai/component": "sandbox-supervisor-egress",
	}), verdict.FenceAltered},
	{"Service of our name", func(t *testing.T, s *supervisor.Site, b *supervisor.Box) {
		_, err := s.Cluster.Client().CoreV1().Services(b.Namespace).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: b.ServiceName()},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: supervisor.Port}}},
		}, metav1.CreateOptions{})
		must(t, err)
	}, verdict.CompanionCollision},
	{"supervisor Pod of our name", func(t *testing.T, s *supervisor.Site, b *supervisor.Box) {
		strangePod(t, s, b.Namespace, b.SupervisorName())
	}, verdict.CompanionCollision},
	{"workload Pod of our name", func(t *testing.T, s *supervisor.Site, b *supervisor.Box) {
		strangePod(t, s, b.Namespace, b.Name)
	}, verdict.CompanionCollision},
	{"sandbox Secret of our name", secretOf("sandbox"), verdict.CompanionCollision},
	{"supervisor Secret of our name", secretOf("supervisor"), verdict.CompanionCollision},
}

func policyOf(name string, labels map[string]string) func(*testing.T, *supervisor.Site, *supervisor.Box) {
	return func(t *testing.T, s *supervisor.Site, b *supervisor.Box) {
		_, err := s.Cluster.Client().NetworkingV1().NetworkPolicies(b.Namespace).Create(t.Context(), &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"openshell.ai/boundary-role": "workload"}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
				Egress:      []networkingv1.NetworkPolicyEgressRule{{}},
			},
		}, metav1.CreateOptions{})
		must(t, err)
	}
}

func strangePod(t *testing.T, s *supervisor.Site, namespace, name string) {
	t.Helper()
	_, err := s.Cluster.Client().CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/c"}}},
	}, metav1.CreateOptions{})
	must(t, err)
}

func secretOf(kind string) func(*testing.T, *supervisor.Site, *supervisor.Box) {
	return func(t *testing.T, s *supervisor.Site, b *supervisor.Box) {
		_, err := s.Cluster.Client().CoreV1().Secrets(b.Namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: b.SecretName(kind, b.Run.Generation)}, StringData: map[string]string{"theirs": "theirs"},
		}, metav1.CreateOptions{})
		must(t, err)
	}
}

// What has a companion's name and is not ours is reported, neither used nor touched, and nothing of the run is left.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	s, client := started(t)
	for _, tc := range foreign {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := s.Box(namespace(t, s))
			tc.makes(t, s, b)
			before := s.History.Now(b.Namespace)
			_, err := client.Provision(t.Context(), b, b.Run)
			demandRefused(t, err, tc.reason)
			now := s.History.Now(b.Namespace)
			for key, object := range before {
				if strings.HasPrefix(key, supervisor.Sandboxes) {
					continue
				}
				if now[key] == nil || now[key].GetUID() != object.GetUID() {
					t.Errorf("%s was replaced or removed", key)
				}
			}
			for _, key := range now.Companions() {
				if before[key] == nil && key != supervisor.Services+"/"+b.ServiceName() { // which outlives a stop
					t.Errorf("%s is left", key)
				}
			}
			if box, err := b.Object(t.Context()); err != nil || !box.Suspended() {
				t.Errorf("the Sandbox runs: %v", err)
			}
		})
	}
}

// refusals are why the API server does not take a workload Pod, what of its answer must reach the log and the Sandbox, and the text that
// whoever asked reads: names and numbers, and none of the words.
var refusals = []struct {
	name    string
	labels  []string // of the namespace
	prepare func(t *testing.T, s *supervisor.Site, namespace string)
	change  func(*supervisor.Draft)
	want    string
	told    string
}{
	{name: "quota", prepare: func(t *testing.T, s *supervisor.Site, namespace string) {
		quota(t, s, namespace, "one-pod", corev1.ResourcePods, "1")
	}, want: "exceeded quota", told: "the cluster refuses the sandbox's pod: exceeded quota: one-pod, requested: pods=1, used: pods=1, limited: pods=1"},
	{name: "limit range", prepare: func(t *testing.T, s *supervisor.Site, namespace string) {
		_, err := s.Cluster.Client().CoreV1().LimitRanges(namespace).Create(t.Context(), &corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Name: "small"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")},
			}}},
		}, metav1.CreateOptions{})
		must(t, err)
	}, change: func(d *supervisor.Draft) {
		d.Pod.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("2Gi")}
	}, want: "maximum ephemeral-storage usage", told: "the cluster refuses the sandbox's pod: limit range: maximum ephemeral-storage usage per Container is 1Gi, but limit is 2Gi"},
	{name: "pod security", labels: []string{"pod-security.kubernetes.io/enforce=restricted"}, change: func(d *supervisor.Draft) {
		d.Pod.Containers[0].SecurityContext.Capabilities = nil
	}, want: "violates PodSecurity", told: `the cluster refuses the sandbox's pod: violates PodSecurity "restricted:latest": unrestricted capabilities`},
	{name: "validation", change: func(d *supervisor.Draft) {
		d.Pod.Containers[0].VolumeMounts[0].Name = "nothing"
	}, want: "is invalid", told: "the cluster refuses the sandbox's pod: a field is invalid: spec.containers[0].volumeMounts[0].name"},
}

// quota limits how many objects of a kind a namespace may have.
func quota(t *testing.T, s *supervisor.Site, namespace, name string, of corev1.ResourceName, most string) {
	t.Helper()
	must(t, quotaOf(t.Context(), s, namespace, name, of, resource.MustParse(most)))
}

// quotaOf is quota for other goroutines than the test's.
func quotaOf(ctx context.Context, s *supervisor.Site, namespace, name string, of corev1.ResourceName, most resource.Quantity) error {
	_, err := s.Cluster.Client().CoreV1().ResourceQuotas(namespace).Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{of: most}},
	}, metav1.CreateOptions{})
	return err
}

// A workload Pod that is not admitted ends the call promptly and with the API server's reason, and nothing is left.
func TestWorkloadIsRefused(t *testing.T) {
	t.Parallel()
	s, client := started(t)
	for _, tc := range refusals {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, s, tc.labels...)
			if tc.prepare != nil {
				tc.prepare(t, s, ns)
			}
			b := s.Box(ns, func(d *supervisor.Draft) {
				if tc.change != nil {
					tc.change(d)
				}
			})
			_, err := client.Provision(t.Context(), b, b.Run)
			decision := demandRefused(t, err, verdict.WorkloadRefused)
			if !strings.Contains(decision.Explain(), tc.want) || decision.Message() != tc.told {
				t.Errorf("explained with %q, want %q in it; told %q, want %q", decision.Explain(), tc.want, decision.Message(), tc.told)
			}
			demandNothing(t, s, b, true)
		})
	}
}

// A companion that the API server does not take ends the call likewise.
func TestCompanionIsRefused(t *testing.T) {
	t.Parallel()
	s, client := started(t)
	for name, tc := range map[string]struct {
		of         corev1.ResourceName
		most, told string
		service    bool // which outlives a stop, was made
	}{
		"supervisor Pod": {corev1.ResourcePods, "0", "exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0", true},
		"Service":        {corev1.ResourceServices, "0", "exceeded quota: few, requested: services=1, used: services=0, limited: services=0", false},
		"second Secret":  {corev1.ResourceSecrets, "1", "exceeded quota: few, requested: secrets=1, used: secrets=1, limited: secrets=1", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, s)
			quota(t, s, ns, "few", tc.of, tc.most) // which is refused with other words until somebody has counted
			b := s.Box(ns)
			_, err := client.Provision(t.Context(), b, b.Run)
			decision := demandRefused(t, err, verdict.CompanionRefused)
			if want := "the cluster refuses a companion of the sandbox: " + tc.told; decision.Message() != want || !strings.Contains(decision.Explain(), "exceeded quota") {
				t.Errorf("told %q, want %q; explained with %q", decision.Message(), want, decision.Explain())
			}
			demandNothing(t, s, b, tc.service)
		})
	}
}

// relabelled is the one alteration that a controller undoes, by the template: who looks after that sees a Pod as it was asked for.
const relabelled = "the role is another"

// demandRelabelled: the Pod that was let go has the role that it was asked for with.
func demandRelabelled(t *testing.T, s *supervisor.Site, b *supervisor.Box) {
	t.Helper()
	pod, err := s.Cluster.Client().CoreV1().Pods(b.Namespace).Get(t.Context(), b.Name, metav1.GetOptions{})
	must(t, err)
	if role := pod.Labels[workspace.LabelBoundaryRole]; role != workspace.RoleWorkload {
		t.Errorf("a Pod of role %q was let go", role)
	}
}

// alterations are what an admission webhook may do to the workload Pod.
var alterations = []struct {
	name   string
	change func(*corev1.Pod)
}{
	{"a container is injected", func(p *corev1.Pod) {
		c := *p.Spec.Containers[0].DeepCopy()
		c.Name, c.Ports = "mesh-proxy", nil
		p.Spec.Containers = append(p.Spec.Containers, c)
	}},
	{"the bootstrap Secret is mounted by the agent", func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: "openshell-sandbox-bootstrap", MountPath: "/secret"})
	}},
	{"the gate is taken away", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }},
	{relabelled, func(p *corev1.Pod) { p.Labels["openshell.ai/boundary-role"] = "other" }},
	{"it uses the node's network", func(p *corev1.Pod) {
		p.Spec.HostNetwork, p.Spec.SecurityContext.Sysctls = true, nil
	}},
	{"its user is another", func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(1)) }},
	{"a token is projected", func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
		}}})
	}},
}

// A workload Pod that is not as it was asked for gets no Secret and is never let go.
func TestWorkloadIsAltered(t *testing.T) {
	t.Parallel()
	s, client := started(t)
	for _, tc := range alterations {
		t.Run(tc.name, func(t *testing.T) {
			b := s.Box(namespace(t, s))
			s.History.Excuse(b.Namespace, supervisor.Pods+"/"+b.Name) // a Pod without a gate is the test's
			// The test makes the Pod in place of the controller, which only takes it for its own then.
			s.Faults.Hold(reconcile.CreatePod)
			defer s.Faults.Release(reconcile.CreatePod)
			answer := make(chan error, 1)
			go func() {
				_, err := client.Provision(t.Context(), b, b.Run)
				answer <- err
			}()
			ctx, cancel := context.WithTimeout(t.Context(), program.Limit)
			defer cancel()
			must(t, s.Faults.AwaitHeld(ctx, reconcile.CreatePod, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}))
			alteredPod(t, s, b, tc.change)
			s.Faults.Release(reconcile.CreatePod)
			err := <-answer
			if err == nil && tc.name == relabelled {
				demandRelabelled(t, s, b)
				return
			}
			decision := demandRefused(t, err, verdict.WorkloadAltered, verdict.GateLifted)
			t.Log(decision.Explain())
			demandNothing(t, s, b, true)
			for _, e := range s.History.Events(b.Namespace) {
				if e.Kind == supervisor.Secrets {
					t.Errorf("a Secret was made: %s", e)
				}
			}
		})
	}
}

// alteredPod makes the workload Pod as the controller would, but for a change.
func alteredPod(t *testing.T, s *supervisor.Site, b *supervisor.Box, change func(*corev1.Pod)) {
	t.Helper()
	box, err := b.Object(t.Context())
	must(t, err)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: b.Name, Labels: box.Spec.PodTemplate.Metadata.Labels, Annotations: box.Spec.PodTemplate.Metadata.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: s.Dialect.Version.APIVersion(), Kind: api.Kind, Name: b.Name, UID: types.UID(b.UID), Controller: new(true),
			}},
		},
	}
	must(t, decode(box.Spec.PodTemplate.Spec, &pod.Spec))
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "workspace", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "workspace-" + b.Name},
	}})
	change(pod)
	_, err = s.Cluster.Client().CoreV1().Pods(b.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
}

// The fence of a namespace is altered while a run is up in it: nothing more is started behind it, and it is not repaired.
func TestFenceIsAlteredMeanwhile(t *testing.T) {
	t.Parallel()
	s, client := started(t)
	ns := namespace(t, s)
	s.History.Excuse(ns, supervisor.Policies+"/openshell-sandbox-workloads")
	first, second := s.Box(ns), s.Box(ns)
	_, err := client.Provision(t.Context(), first, first.Run)
	must(t, err)
	policies := s.Cluster.Client().NetworkingV1().NetworkPolicies(ns)
	_, err = policies.Patch(t.Context(), "openshell-sandbox-workloads", types.MergePatchType, []byte(`{"spec":{"egress":[{}]}}`), metav1.PatchOptions{})
	must(t, err)
	before := s.History.Now(ns)
	_, err = client.Provision(t.Context(), second, second.Run)
	demandRefused(t, err, verdict.FenceAltered)
	_, err = client.Provision(t.Context(), first, first.Run)
	demandRefused(t, err, verdict.FenceAltered, verdict.RunIsAnother) // the loop may have begun to stop the run before the call looked
	altered, err := policies.Get(t.Context(), "openshell-sandbox-workloads", metav1.GetOptions{})
	must(t, err)
	if diff := cmp.Diff(before[supervisor.Policies+"/"+altered.Name].GetResourceVersion(), altered.ResourceVersion); diff != "" {
		t.Errorf("the policy was written to: %s", diff)
	}
	for _, key := range s.History.Now(ns).Companions() {
		if before[key] == nil {
			t.Errorf("%s was made behind an altered fence", key)
		}
	}
}
